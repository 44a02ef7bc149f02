"""Measurements of the published figures: workloads, clients, networks, and one report of them all."""
