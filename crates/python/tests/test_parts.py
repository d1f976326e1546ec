"""Parts written in Python: the results of their twins in Rust, and errors."""

from __future__ import annotations

import pytest
import twins
from conftest import ROOT, SMALL

import whimbrel
from whimbrel.prototypes import StandardWindow

BASE = {"flow.bulk.sctp.scheme": "standard", "duration": "20 s", "link.radio.loss.rate": 0.02}


def fingerprints(results):
    return results.table["fingerprint"].to_pylist()


@pytest.mark.parametrize(
    ("family", "twin", "native"),
    [
        ("discriminator", twins.Veno, {"flow.bulk.sctp.discriminator": "veno"}),
        ("window", StandardWindow, {}),
    ],
)
def test_part_gives_the_results_of_its_twin_in_rust(family, twin, native):
    ours = whimbrel.run(SMALL, progress=False, **{family: twin}, **BASE)
    rust = whimbrel.run(SMALL, progress=False, **BASE, **native)
    assert ours.table.equals(rust.table), "every metric and the hash of all events"
    other = whimbrel.run(SMALL, progress=False, **BASE | {"flow.bulk.sctp.scheme": "cubic"})
    assert fingerprints(other) != fingerprints(rust), "the comparison can fail"


def test_policy_gives_the_results_of_its_twin_in_rust():
    scenario = ROOT / "examples/failover.toml"
    loaded = whimbrel.load(scenario)
    flow = loaded.resolved["flow"][0]["name"]
    policy = {"kind": "cycle-count", "cycle": 100, "threshold": 0.2, "returns": False}
    base = {f"flow.{flow}.sctp.path_max_retrans": 5, "seeds": 1, "duration": "65 s"}
    rust = whimbrel.run(scenario, progress=False, **base, **{f"flow.{flow}.sctp.path_policy": policy})
    ours = whimbrel.run(scenario, progress=False, path_policy={flow: lambda: twins.CycleCount(100, 0.2, False)}, **base)
    assert fingerprints(ours) == fingerprints(rust)
    assert fingerprints(whimbrel.run(scenario, progress=False, **base)) != fingerprints(rust), "the policy matters"


def test_part_of_one_flow_leaves_the_others_alone():
    seen = []

    class Spy:
        def __init__(self):
            seen.append(self)

        def judge(self, window, loss):
            return "congestion"

    head, sweep = SMALL.split("[sweep]")
    text = head + "[[flow]]\nname = 'other'\nfrom = 'a'\nto = 'b'\n\n[sweep]" + sweep
    ours = whimbrel.run(text, discriminator={"other": Spy}, progress=False, seeds=1)
    assert seen and fingerprints(ours)[1] == fingerprints(whimbrel.run(text, progress=False, seeds=1))[1]


class NoJudge:
    pass


class WrongVerdict:
    def judge(self, window, loss):
        return "maybe"


class Raises:
    def judge(self, window, loss):
        raise ZeroDivisionError("of the part")


class WrongWindow:
    def on_ack(self, window, ack):
        return "large"

    def on_congestion(self, window, loss):
        return None


class Negative(WrongWindow):
    def on_ack(self, window, ack):
        return -1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"discriminator": NoJudge}, TypeError, "NoJudge has no method `judge`"),
        ({"discriminator": WrongVerdict}, ValueError, 'judge returned \'maybe\', allowed are "congestion"'),
        ({"discriminator": Raises}, ZeroDivisionError, "of the part"),
        ({"window": WrongWindow}, ValueError, "a window control returned 'large'"),
        ({"window": Negative}, ValueError, "a window control returned -1"),
        ({"discriminator": "veno"}, TypeError, "allowed is a class or a function"),
        ({"discriminator": {"bluk": Raises}}, ValueError, "there is no flow bluk"),
    ],
)
def test_exception_in_a_part_ends_the_runs_and_is_raised(arguments, error, message):
    with pytest.raises(error, match=message):
        whimbrel.run(SMALL, progress=False, duration="2000 s", **arguments)


def test_part_of_all_flows_skips_those_that_cannot_have_it():
    events = []

    class Policy:
        def on_event(self, paths, path, event):
            events.append(event.kind)

        def sending(self, paths, standard):
            return None

        def primary(self, paths):
            return None

    head, sweep = SMALL.split("[sweep]")
    text = head + "[[flow]]\nname = 'web'\nkind = 'tcp'\nfrom = 'a'\nto = 'b'\n\n[sweep]" + sweep
    ours = whimbrel.run(text, path_policy=Policy, progress=False, seeds=1)
    assert events and fingerprints(ours) == fingerprints(whimbrel.run(text, progress=False, seeds=1)), "None is the standard's choice"
    with pytest.raises(ValueError, match="flow web has no such part"):
        whimbrel.run(text, path_policy={"web": Policy}, progress=False, seeds=1)
    only_tcp = text.replace("name = \"bulk\"\n", "name = \"bulk\"\nkind = \"tcp\"\n").split("[sweep]")[0]
    with pytest.raises(ValueError, match="there is no flow that can have such a part"):
        whimbrel.run(only_tcp, path_policy=Policy, progress=False, seeds=1)


def test_lists_and_prototypes_have_different_names():
    import whimbrel.prototypes

    assert callable(whimbrel.parts) and whimbrel.prototypes.PathPolicy


def test_parts_write_no_folder(tmp_path):
    with pytest.raises(ValueError, match="cannot be repeated"):
        whimbrel.run(SMALL, discriminator=Raises, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_extreme_windows_are_safe():
    class Huge:
        def on_ack(self, window, ack):
            return float("inf"), 1e300

        def on_congestion(self, window, loss):
            return 0

    results = whimbrel.run(SMALL, window=Huge, progress=False, **BASE)
    assert len(results) == 3
