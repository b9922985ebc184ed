"""Bundle ↔ wheel: names, packaging, the PEP 517 backend's work, a wheel file's verification, what pip installed."""
