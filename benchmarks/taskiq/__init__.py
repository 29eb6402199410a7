"""Taskiq with the stream broker of taskiq-redis, in its documented settings."""
