"""From a source to a release: checks and what they found."""
