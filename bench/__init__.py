"""Benchmarks that anyone can repeat: `make bench`, or `python -m bench --help`. What each one does stands in docs/benchmarks.md."""
