"""The broker's configuration keys, one module per theme; `broker_configs.py` puts them together."""
