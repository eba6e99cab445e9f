"""Who the agent is to the cloud: where its tokens come from."""
