"""Traces of turns, as an OpenTelemetry collector receives them over HTTP."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from memplane.errors import SettingsError
from memplane.integrations.otel import open_otlp_sink
from tests.proxy.proxied import proxied
from tests.support.answers import Said, chat_json, chat_stream, cut, openai_error, whole
from tests.support.upstream import Upstream, running_upstream

CHAT, TRACES = "/v1/chat/completions", "/v1/traces"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def spans(collector: Upstream) -> list[Span]:
    found: list[Span] = []
    for one in collector.asked(TRACES):
        is_packed = one.header("content-encoding") == "gzip"
        request = ExportTraceServiceRequest()
        request.ParseFromString(gzip.decompress(one.body) if is_packed else one.body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                found += scope.spans
    return found


def attributes(span: Span) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in span.attributes
    }


async def test_a_turn_and_its_recall_are_traced_and_nothing_that_was_said(tmp_path: Path) -> None:
    async with running_upstream() as collector:
        collector.at(TRACES, whole(b""))
        async with proxied(tmp_path, telemetry__otlp_endpoint=collector.address) as door:
            door.upstream.at(CHAT, chat_json(Said("Peanuts, of all things.")))
            headers = {"traceparent": PARENT}
            answered = await door.chat("What is Ada allergic to?", headers=headers)
            assert answered.status == 200
            # The client's own header goes on to the provider, as it came.
            assert door.upstream.asked(CHAT)[0].header("traceparent") == PARENT
            door.upstream.at(CHAT, openai_error(500, "busy"))
            await door.chat("again")
            door.upstream.at(CHAT, cut(chat_stream(Said("Peanuts.")), 2))
            with pytest.raises(Exception, match="payload"):
                await door.chat("and again", stream=True)
        traced = spans(collector)
        turns = [one for one in traced if one.name == "chat gpt-4o"]
        first, refused, broken = turns
        assert first.trace_id.hex() == PARENT[3:35]
        assert first.parent_span_id.hex() == PARENT[36:52]
        assert attributes(first) == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": attributes(first)["gen_ai.usage.input_tokens"],
            "gen_ai.usage.output_tokens": attributes(first)["gen_ai.usage.output_tokens"],
            "http.response.status_code": 200,
            "memplane.agent": "ada",
            "memplane.outcome": "recorded",
            **{
                name: value
                for name, value in attributes(first).items()
                if name in {"memplane.first_byte_ms", "memplane.cost_usd"}
            },
        }
        recalls = [one for one in traced if one.name == "recall memplane"]
        assert recalls[0].parent_span_id == first.span_id
        assert attributes(recalls[0])["memplane.memory.status"] == "succeeded"
        assert attributes(refused)["memplane.outcome"] == "refused"
        assert broken.status.code == Status.STATUS_CODE_ERROR
        assert attributes(broken)["error.type"] == "cut"
        sent = b"".join(one.body for one in collector.asked(TRACES))
        assert b"allergic" not in sent
        assert b"Peanuts" not in sent


async def test_a_collector_that_is_not_there_harms_no_turn(tmp_path: Path) -> None:
    async with proxied(tmp_path, telemetry__otlp_endpoint="http://127.0.0.1:9") as door:
        door.upstream.at(CHAT, chat_json(Said("Peanuts.")))
        assert (await door.chat("What is Ada allergic to?")).status == 200
        assert len(await door.recorded()) == 1


def test_without_the_libraries_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(SettingsError, match="memplane\\[otel\\]"):
        open_otlp_sink("http://127.0.0.1:4318")
