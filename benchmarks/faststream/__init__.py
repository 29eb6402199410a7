"""FastStream in its best documented settings."""
