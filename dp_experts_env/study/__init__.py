"""Studies over many matches: tournaments and reports."""
