"""What an agent needs in Azure: an account, a container, a role and a consent."""
