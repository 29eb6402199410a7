"""Loops as a careful user writes them over the driver that SureStream uses."""
