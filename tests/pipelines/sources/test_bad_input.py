"""Bad input never gives a traceback or a silent drop."""

from hypothesis import HealthCheck, example, given, settings

from tests.pipelines.sources import bad_input

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(quick, max_examples=250)
@given(bad_input.FILES, bad_input.DAMAGE)
def test_any_file_is_accounted_for_or_a_sentence(tmp_path, file, damage):
    path = bad_input.write(tmp_path, file, damage)
    bad_input.read_one(path, file, bad_input.complete(file, damage))


@settings(quick, max_examples=60)
@given(bad_input.PARQUET, bad_input.DAMAGE)
@example([{"text": "a" * 9, "id": "x"}] * 9, ("flip", 7, 255))
def test_any_parquet_file_is_accounted_for_or_a_sentence(tmp_path, rows, damage):
    path = tmp_path / "a.parquet"
    path.write_bytes(bad_input.damaged(bad_input.parquet(rows), damage))
    bad_input.read_one(path, {"form": {}}, False)
