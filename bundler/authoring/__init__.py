"""Making Providers."""
