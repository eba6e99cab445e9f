"""Pods of agents: their file, the descriptors of their services, and what is compiled from them.

`claw-pod.yml` says which agents use which memory service. Compiling it leaves one folder per
agent for the proxy, and `compose.generated.yml` for Docker.
"""
