"""SureStream."""
