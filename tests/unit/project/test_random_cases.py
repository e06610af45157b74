from support.random_cases import cases_in, suite_of

REPORT = """tests/laws/test_x.py::test_y:

  - during generate phase (0.05 seconds):
    - Typical runtimes: < 1ms, of which < 1ms in data generation
    - 41 passing examples, 0 failing examples, 7 invalid examples

  - Stopped because settings.max_examples=41
"""


def test_only_examples_that_the_test_accepted_are_cases():
    assert cases_in(REPORT) == 41


def test_a_test_without_random_cases_counts_none():
    assert cases_in("") == 0


def test_cases_are_counted_by_the_folder_of_the_test():
    assert suite_of("tests/laws/predicates/test_covering.py::test_x[1]") == "laws/predicates"
