"""Followers and the set of replicas in sync: pure."""
