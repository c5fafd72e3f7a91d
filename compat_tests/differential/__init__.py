"""The same requests to kafkapy and to Apache Kafka, good and bad, and their answers compared field by field.

    python -m compat_tests.differential                    starts both
    python -m compat_tests.differential --target HOST:PORT compares a fresh broker that runs already, such as another Kafka
    python -m compat_tests.differential --case 'fetch*'    some cases only

A case is a function in cases/ that asks a Probe; each answer is noted in a form that leaves out what must differ (ids, ports, clocks).
What differs knowingly stands in allowed.py with its reason; anything else is printed and makes the exit status 1.
"""
