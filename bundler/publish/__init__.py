"""From a source to a release, and where releases go."""
