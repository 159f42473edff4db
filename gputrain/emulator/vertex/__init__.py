"""Vertex AI v1 custom jobs: what is offered, what a request must satisfy, how a job lives."""
