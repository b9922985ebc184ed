"""What a host does with a Provider: find, verify, open."""
