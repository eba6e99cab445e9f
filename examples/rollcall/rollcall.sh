#!/bin/sh
# One turn through the proxy: say who is here, and ask who was here before.
set -eu
curl --silent --show-error --fail-with-body --retry 10 --retry-connrefused \
  --header "Authorization: Bearer ${CLLAMA_TOKEN}" \
  --header "Content-Type: application/json" \
  --data "{\"model\":\"openai/gpt-4o-mini\",\"messages\":[{\"role\":\"user\",\"content\":\"Rollcall: ${CLAW_AGENT_ID} is here. Which rollcall do you remember?\"}]}" \
  http://cllama:8080/v1/chat/completions
echo
