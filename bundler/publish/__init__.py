"""How a release reaches an index."""
