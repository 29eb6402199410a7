"""A handler's call: its signature read and its parameters resolved once, at mount."""
