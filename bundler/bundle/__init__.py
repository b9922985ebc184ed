"""The bundle: planned, written whole or not at all, described by its manifest, verified."""
