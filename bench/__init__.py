"""Figures that are promised, measured as ratios within one run: `make bench`."""
