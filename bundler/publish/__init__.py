"""Publishing: where releases go."""
