"""A deterministic simulation: several clients, the emulated clouds, guests and the clock in one process.

One seed is one schedule; ``docs/design/architecture.md`` says what is simulated, and how to replay a seed.
"""
