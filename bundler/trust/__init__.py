"""What a host believes: what it verified before."""
