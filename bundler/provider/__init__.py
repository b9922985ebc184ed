"""Tree → Provider → files: loading with every rule, the closure with reasons, Skill bindings."""
