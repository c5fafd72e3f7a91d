"""Checks against the real thing: stock clients and Apache Kafka itself. `make compat` runs them; `make test` does not need them."""
