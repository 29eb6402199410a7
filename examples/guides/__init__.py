"""Small programs that the guides show; each has its tests."""
