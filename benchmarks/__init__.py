"""Ratios against peers, for `make bench`; a package, as Opacus installs one of this name too."""
