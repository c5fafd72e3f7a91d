"""A deterministic simulation of a cluster: the pure parts of N brokers on one seeded event queue, see docs/simulation.md."""
