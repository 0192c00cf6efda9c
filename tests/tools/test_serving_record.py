"""The committed measurement of the service is whole: everybody who asked was answered."""

import json

from tests.scripts import ROOT

RECORD = ROOT / "benchmarks" / "results" / "serving.json"


def test_the_record_is_of_64_clients_all_of_whom_were_answered_and_of_the_storm() -> None:
    results = json.loads(RECORD.read_text())["results"]
    for result in results:
        assert result["clients"] == 64
        assert all(set(server["statuses"]) == {"200"} for server in result["servers"].values())
    storm = results[0]["storm"]
    assert storm["opened_at_once"] + storm["refused"] == 10_000
    assert set(storm["afterwards"]["statuses"]) == {"200"}
