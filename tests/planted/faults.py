"""Faults that a maintainer could introduce, each against one promise, and the tests that catch each.

A change that moves the text of a fault moves the fault too: plant it where the promise is kept now.
"""

from tests.planted.plant import Plant

SPEC = "tests/unit/spec/test_training.py"
PLAN = "tests/unit/planning/test_plan.py"
TRAVELS = "tests/security/test_what_travels.py"
COMMANDS = "tests/unit/cli/test_commands.py"
BACKENDS = "tests/contract/test_backends.py"
BILLS = "tests/cloud/test_what_bills.py"
CHECKPOINTS = "tests/entrypoint/check/test_ddp_checkpoints.py"

FAULTS = (
    # what is asked for
    Plant(
        name="a mistyped field of a spec is ignored",
        file="gputrain/spec/training.py",
        text='            faults.add(key, value, "no such field", '
        'f"did you mean {near[0]}?" if near else "leave it out")\n',
        instead="            continue\n",
        caught_by=(f"{SPEC}::test_an_unknown_keyword_names_the_nearest_field",),
    ),
    Plant(
        name="a limit of 90 minutes lasts 90 hours",
        file="gputrain/spec/durations.py",
        text='"m": 60,',
        instead='"m": 3_600,',
        caught_by=("tests/unit/spec/test_durations.py::test_durations_are_read_as_people_write_them",),
    ),
    Plant(
        name="a password in env is shown by print(spec)",
        file="gputrain/spec/training.py",
        text="repr=lambda env: _redacted(without_secrets(env))",
        instead="repr=_redacted",
        caught_by=(f"{SPEC}::test_a_secret_in_env_is_warned_of_and_not_shown",),
    ),
    # the plan: order, price, quota
    Plant(
        name="a cheaper region comes before the user's first one",
        file="gputrain/planning/plan.py",
        text="one.provisioning_model, one.backend, one.region_rank",
        instead="one.provisioning_model, one.backend",
        caught_by=(f"{PLAN}::test_regions_keep_the_users_order_whatever_they_cost",),
    ),
    Plant(
        name="max_cost pays for one node of several",
        file="gputrain/planning/candidates.py",
        text="price.usd_h * spec.num_nodes if price",
        instead="price.usd_h if price",
        caught_by=("tests/laws/test_planning_laws.py::test_no_candidate_costs_more_than_max_cost",),
    ),
    Plant(
        name="a machine of the catalog has another number of GPUs",
        file="gputrain/catalog/machine_types.py",
        text='("a3-highgpu-8g", "A3 High", "a3-high", 8,',
        instead='("a3-highgpu-8g", "A3 High", "a3-high", 4,',
        caught_by=("tests/laws/test_catalog_and_emulator_agree.py::test_on_how_many_gpus_apis_count",),
    ),
    Plant(
        name="the price of attached GPUs is that of one of them",
        file="gputrain/catalog/pricing.py",
        text="usd_h=usd_h * (float(wanted.gpu_count) if wanted.is_attached else 1),",
        instead="usd_h=usd_h,",
        caught_by=("tests/unit/catalog/test_pricing.py::test_attached_gpus_cost_at_least_their_own_price",),
    ),
    Plant(
        name="a quota that could not be read blocks the plan",
        file="gputrain/quota/values.py",
        text="            return Verdict.UNKNOWN\n",
        instead="            return Verdict.SHORT\n",
        caught_by=(
            "tests/unit/compute/test_compute_availability.py::test_offline_there_is_a_plan_with_everything_unknown",
        ),
    ),
    Plant(
        name="a quota of zero is not read",
        file="gputrain/quota/book.py",
        text='number(details.get("value", 0))',
        instead='number(details.get("value"))',
        caught_by=("tests/unit/quota/test_quota_reader.py::test_a_quota_of_zero_is_short_and_not_unknown",),
    ),
    Plant(
        name="a plan uploads the code",
        file="gputrain/trainer/road.py",
        text="        code = examine(spec, is_sent",
        instead="        for one in wanted.candidates[:1]:\n"
        "            backend = self._backends[one.backend]\n"
        '            seam.send(backend, seam.stage(backend, spec, "plan"))\n'
        "        code = examine(spec, is_sent",
        caught_by=(f"{BILLS}::test_a_plan_of_code_that_no_job_has_sent_yet_writes_nothing",),
    ),
    Plant(
        name="doctor finds nothing wrong where a permission is missing",
        file="gputrain/preflight/project.py",
        text="_check(access, need, name, need.permission in held)",
        instead="_check(access, need, name, True)",
        caught_by=(
            "tests/unit/preflight/test_permissions.py::test_each_missing_permission_is_one_fault_with_the_command_that_grants_it",
        ),
    ),
    # the code that travels
    Plant(
        name="the .env beside a script travels",
        file="gputrain/staging/ignore.py",
        text="        for rules in (self.own, _SECRET, self.git, _ALWAYS):\n",
        instead="        for rules in (self.own, self.git, _ALWAYS):\n",
        caught_by=(f"{TRAVELS}::test_what_holds_credentials_by_its_name_stays_behind_and_is_told",),
    ),
    Plant(
        name="what git ignores from the top of a repository travels",
        file="gputrain/staging/ignore.py",
        text="        rules = rules.within(os.path.join(top, base), base)\n",
        instead="",
        caught_by=(f"{TRAVELS}::test_rules_from_the_top_of_the_repository_hold_in_every_folder",),
    ),
    Plant(
        name="a file that holds a key travels",
        file="gputrain/staging/archive.py",
        text="    refuse_credentials(seen.folder, secrets)\n",
        instead="",
        caught_by=(f"{TRAVELS}::test_a_small_file_with_a_key_is_refused_by_name",),
    ),
    Plant(
        name="code is unpacked outside its folder",
        file="gputrain/keeper/loader.py",
        text='{"", ".", ".."} & set(parts)',
        instead='{"", "."} & set(parts)',
        caught_by=(
            "tests/security/test_what_is_unpacked.py::test_no_archive_of_a_hundred_writes_outside_or_makes_anything_but_plain_files",
        ),
    ),
    Plant(
        name="code that was changed in the bucket runs",
        file="gputrain/keeper/loader.py",
        text='    if hashlib.sha256(data).hexdigest() != job["sha256"]:\n',
        instead='    if not job["sha256"]:\n',
        caught_by=(
            "tests/unit/staging/check/test_container_side.py::test_code_that_was_exchanged_under_its_name_is_never_unpacked_or_run",
        ),
    ),
    # the request
    Plant(
        name="$(NAME) in a variable is expanded on Vertex AI",
        file="gputrain/backends/vertex/render.py",
        text='for name, value in env.items() if "$" in value',
        instead="for name, value in {}.items()",
        caught_by=(f"{BACKENDS}::test_arguments_and_environment_arrive_as_they_were_given[vertex-rest]",),
    ),
    Plant(
        name="an argument with a space in it arrives as two",
        file="gputrain/backends/results.py",
        text='"argv": list(bundle.argv),',
        instead='"argv": " ".join(bundle.argv).split(),',
        caught_by=(f"{BACKENDS}::test_arguments_and_environment_arrive_as_they_were_given[vertex-rest]",),
    ),
    Plant(
        name="a job on Vertex AI has no time limit",
        file="gputrain/backends/vertex/render.py",
        text='        "timeout": _seconds(candidate.max_run_duration),\n',
        instead="",
        caught_by=(
            f"{BILLS}::test_a_job_that_everybody_forgot_bills_until_its_limit_and_leaves_no_disk[vertex]",
        ),
    ),
    Plant(
        name="a VM whose time is over is stopped and its disk bills on",
        file="gputrain/backends/compute/render.py",
        text='"instanceTerminationAction": "DELETE"',
        instead='"instanceTerminationAction": "STOP"',
        caught_by=(
            f"{BILLS}::test_a_job_that_everybody_forgot_bills_until_its_limit_and_leaves_no_disk[compute]",
        ),
    ),
    Plant(
        name="a Spot job is made and billed as a standard one",
        file="gputrain/backends/compute/render.py",
        text='    ProvisioningModel.SPOT: "SPOT",\n',
        instead='    ProvisioningModel.SPOT: "STANDARD",\n',
        caught_by=(f"{BILLS}::test_a_spot_job_is_billed_as_one[compute]",),
    ),
    Plant(
        name="the user's labels do not reach the machines",
        file="gputrain/gcp/labels.py",
        text="        **theirs,\n",
        instead="",
        caught_by=("tests/cloud/test_requests.py::test_a_field_of_a_spec_stands_in_the_request",),
    ),
    Plant(
        name="VMs run as the project's default account",
        file="gputrain/backends/compute/render.py",
        text='{"email": settings.service_account, "scopes"',
        instead='{"email": "default", "scopes"',
        caught_by=(
            "tests/cloud/test_requests.py::test_an_argument_of_a_cloud_backend_stands_in_the_request",
        ),
    ),
    Plant(
        name="a job runs in whatever its image's tag means by then",
        file="gputrain/backends/vertex/backend.py",
        text="lambda image: pinned(self._access, image)",
        instead="lambda image: image",
        caught_by=(
            "tests/laws/check/test_moved_tags.py::test_two_submits_with_a_tag_moved_in_between_run_two_digests",
        ),
    ),
    # one key, one job; cancel and clean-up
    Plant(
        name="two submits with one key are two jobs",
        file="gputrain/spec/entry.py",
        text='suffix = hashlib.sha256(idempotency_key.encode(errors="surrogatepass")).hexdigest()[:10]',
        instead="suffix = secrets.token_hex(5)",
        caught_by=(
            f"{BILLS}::test_one_key_is_one_job_in_any_process",
            f"{COMMANDS}::test_the_same_key_gives_the_same_job",
        ),
    ),
    Plant(
        name="a create on Vertex AI whose answer was lost is sent again",
        file="gputrain/backends/vertex/jobs.py",
        text="                policy=CREATE,\n",
        instead="",
        caught_by=(f"{BILLS}::test_a_create_whose_answer_was_lost_makes_one_job[vertex]",),
    ),
    Plant(
        name="a cancel deletes one node and forgets the others",
        file="gputrain/backends/compute/gang.py",
        text="        left, deletes, denied = self.look(gang), Deletes",
        instead="        left, deletes, denied = dict(list(self.look(gang).items())[:1]), Deletes",
        caught_by=(f"{BILLS}::test_a_cancel_ends_every_node[compute]",),
    ),
    Plant(
        name="clean-up removes the machines of a job that runs",
        file="gputrain/backends/compute/cleanup.py",
        text="    return None if seen.state is not None and seen.state.is_terminal else VmNames.of(record)\n",
        instead="    return None\n",
        caught_by=(f"{BILLS}::test_a_clean_up_leaves_what_runs_and_what_others_own",),
    ),
    Plant(
        name="clean-up removes the machines of another bucket's jobs",
        file="gputrain/backends/compute/cleanup.py",
        text='    wanted = f"{ours()} AND labels.{LABEL_HOME}={home}"\n',
        instead="    wanted = ours()\n",
        caught_by=(f"{BILLS}::test_a_clean_up_leaves_what_runs_and_what_others_own",),
    ),
    Plant(
        name="a preempted job starts again for ever",
        file="gputrain/records/record.py",
        text="max(0, self.training_spec.max_restarts - self.attempt)",
        instead="max(0, self.training_spec.max_restarts)",
        caught_by=(f"{BILLS}::test_a_preempted_job_starts_again_as_often_as_was_asked_and_no_more",),
    ),
    Plant(
        name="each attempt of a job gets its whole time again",
        file="gputrain/records/record.py",
        text="        run_s = int(spec.max_run_duration.total_seconds()) - self.used_s\n",
        instead="        run_s = int(spec.max_run_duration.total_seconds())\n",
        caught_by=(f"{BILLS}::test_the_attempts_of_a_job_have_its_time_limit_together",),
    ),
    Plant(
        name="Vertex AI restarts a job that asked for no restart",
        file="gputrain/backends/vertex/render.py",
        text="    if spec.max_restarts == 0:\n",
        instead="    if spec.max_restarts < 0:\n",
        caught_by=(f"{BILLS}::test_a_job_that_asked_for_no_restart_ends_with_its_machine[vertex]",),
    ),
    Plant(
        name="two jobs of one key both train on Vertex AI",
        file="gputrain/keeper/prelude.py",
        text="        sys.exit(0)\n    count = ",
        instead="    count = ",
        caught_by=(
            "tests/unit/staging/check/test_container_side.py::test_the_second_job_of_a_key_does_nothing_and_ends_well",
        ),
    ),
    Plant(
        name="a full zone rules out its whole region",
        file="gputrain/planning/ladder.py",
        text="            full += [region_market_of(one.candidate)] if one.scope is Scope.REGION else []\n",
        instead="            full += [region_market_of(one.candidate)]\n",
        caught_by=(f"{BILLS}::test_a_full_zone_sends_the_job_to_the_next_one",),
    ),
    Plant(
        name="one key names two specs",
        file="gputrain/records/alike.py",
        text='    check_alike(record.spec, spec_of(spec, ("gputrain_function.py",)), what, fix)\n',
        instead="",
        caught_by=(f"{BILLS}::test_a_key_of_another_spec_starts_nothing",),
    ),
    # what strangers can reach
    Plant(
        name="a token follows a redirect",
        file="gputrain/gcp/wire.py",
        text="    session.max_redirects = 0 ",
        instead="    session.max_redirects = 30 ",
        caught_by=("tests/security/test_where_tokens_go.py::test_a_trainers_token_follows_no_redirect",),
    ),
    Plant(
        name="a token goes to any host that an endpoint names",
        file="gputrain/gcp/api.py",
        text="        check_address(api.value, address)",
        instead="        ",
        caught_by=("tests/security/test_where_tokens_go.py::test_an_object_of_anybodys_is_looked_at_too",),
    ),
    Plant(
        name="an error shows the token that a service sent back",
        file="gputrain/gcp/answer.py",
        text="    clean = redact(text[: 2 * LONGEST])",
        instead="    clean = text[: 2 * LONGEST]",
        caught_by=(
            "tests/security/check/test_canaries.py::test_no_token_that_a_service_throws_back_is_shown",
        ),
    ),
    Plant(
        name="a log line moves the cursor of the terminal",
        file="gputrain/terminal.py",
        text='_COLOUR = r"\\x1b\\[[0-9;:]{0,40}m"',
        instead='_COLOUR = r"\\x1b\\[[0-9;:]{0,40}[A-Za-z]"',
        caught_by=(
            "tests/security/test_what_is_shown.py::test_log_lines_keep_their_colour_and_nothing_else",
        ),
    ),
    Plant(
        name="a status document in a bucket may hold anything",
        file="gputrain/backends/results.py",
        text='.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else None\n',
        instead="  # type: ignore[return-value]\n",
        caught_by=(
            "tests/unit/test_causes.py::test_a_failure_holds_texts_and_numbers_whatever_a_bucket_holds",
        ),
    ),
    Plant(
        name="a job starts again with what a record in the bucket says of accounts",
        file="gputrain/trainer/restart.py",
        text="        return not other\n",
        instead="        return True\n",
        caught_by=(
            "tests/unit/vertex/test_vertex_elsewhere.py::test_a_process_with_another_account_makes_nothing_and_says_with_which_it_would",
        ),
    ),
    Plant(
        name="text of others builds elements in a page",
        file="gputrain/terminal.py",
        text="    return html.escape(safe(text))\n",
        instead="    return safe(text)\n",
        caught_by=("tests/security/test_what_is_shown.py::test_no_text_builds_anything_in_a_page",),
    ),
    # how a job ends
    Plant(
        name="the echo on a healthy rank is reported as the cause",
        file="gputrain/entrypoint/verdict.py",
        text="        self.is_symptom = is_symptom(cause)\n",
        instead="        self.is_symptom = False\n",
        caught_by=(
            "tests/entrypoint/check/test_root_cause.py::test_every_node_names_the_rank_that_failed_first",
        ),
    ),
    Plant(
        name="a job that was stopped exits as one that has finished",
        file="gputrain/entrypoint/verdict.py",
        text="    return verdict(contract.STATE_STOPPED, contract.STOPPED, None, stop)\n",
        instead="    return verdict(contract.STATE_STOPPED, contract.DONE, None, stop)\n",
        caught_by=(
            "tests/entrypoint/check/test_stops.py::test_a_signal_to_one_node_stops_all_ranks_of_all_nodes",
        ),
    ),
    Plant(
        name="a rank that is signalled saves alone",
        file="gputrain/ddp/peers.py",
        text='            self.agreed = self._peers.any(self.asked, "asking whether to stop")\n',
        instead="            self.agreed = self.asked\n",
        caught_by=(
            "tests/entrypoint/check/test_ddp_ranks.py::test_a_stop_that_reaches_one_rank_saves_the_same_step_on_all",
        ),
    ),
    Plant(
        name="ranks of the second node have local ranks of their own",
        file="gputrain/entrypoint/launch.py",
        text="        LOCAL_RANK=str(local_rank),\n",
        instead="        LOCAL_RANK=str(rank),\n",
        caught_by=(
            "tests/entrypoint/check/test_many_nodes.py::test_ranks_count_through_nodes_of_different_sizes",
        ),
    ),
    Plant(
        name="what a rank left running outlives the job",
        file="gputrain/entrypoint/processes.py",
        text="        left = set(host.children_of(os.getpid())) - spared\n",
        instead="        left: Set[int] = set()\n",
        caught_by=(
            "tests/entrypoint/check/test_one_node.py::test_what_a_rank_left_running_ends_with_the_node",
        ),
    ),
    Plant(
        name="hang_timeout reaches no job",
        file="gputrain/backends/results.py",
        text="    if spec.hang_timeout is not None:\n",
        instead="    if spec.hang_timeout is None and spec.keep_outputs is None:\n",
        caught_by=("tests/cloud/test_requests.py::test_a_field_of_a_spec_stands_in_the_request",),
    ),
    Plant(
        name="the last line of a log is lost where it has no end",
        file="gputrain/entrypoint/lines.py",
        text="        return [_as_shown(rest)] if rest else []\n",
        instead="        return []\n",
        caught_by=("tests/entrypoint/check/test_lines.py::test_a_last_line_without_an_end_is_not_lost",),
    ),
    # checkpoints and data
    Plant(
        name="a checkpoint with a file cut short counts as whole",
        file="gputrain/ddp/folder.py",
        text="    return first_difference(directory, marker) or marker\n",
        instead="    return marker\n",
        caught_by=(f"{CHECKPOINTS}::test_a_damaged_checkpoint_gives_way_to_the_one_before",),
    ),
    Plant(
        name="the last checkpoint is removed before the next one is whole",
        file="gputrain/ddp/saving.py",
        text="        if self._peers.rank == 0:\n            folder.remove_step(self._directory, step)\n",
        instead="        for old in folder.steps_in(self._directory) if self._peers.rank == 0 else ():\n"
        "            folder.remove_step(self._directory, old)\n",
        caught_by=(f"{CHECKPOINTS}::test_a_full_disk_is_told_and_the_last_checkpoint_stays",),
    ),
    Plant(
        name="a resumed run begins its epoch anew",
        file="gputrain/ddp/run.py",
        text='= found.shared["epoch"], found.shared["items"]',
        instead='= found.shared["epoch"], 0',
        caught_by=(
            "tests/entrypoint/check/test_ddp_session.py::test_a_run_taken_up_again_is_the_run_nobody_stopped",
        ),
    ),
    Plant(
        name="every rank trains on the same share of the data",
        file="gputrain/ddp/data.py",
        text="iter(order[self._rank :: self._world_size][start:])",
        instead="iter(order[0 :: self._world_size][start:])",
        caught_by=(
            "tests/entrypoint/check/test_ddp_data.py::test_together_the_ranks_see_every_item_and_each_equally_many",
        ),
    ),
    # experiments
    Plant(
        name="a point runs again once it has another number",
        file="gputrain/experiments/book.py",
        text="key_of(self.name, point, before.times)))\n        return asks",
        instead='f"{self.name} {len(asks)}"))\n        return asks',
        caught_by=(
            "tests/unit/experiments/check/test_experiment.py::test_another_process_or_another_day_takes_it_up_and_adds_what_is_missing",
        ),
    ),
    Plant(
        name="the max_cost of an experiment reaches no job",
        file="gputrain/experiments/book.py",
        text="            spec = base.replace(max_cost=min(each, default=None))\n",
        instead="            spec = base\n",
        caught_by=(
            "tests/unit/vertex/test_vertex_fee.py::test_an_experiment_keeps_its_limit_on_vertex_ai",
            "tests/unit/experiments/test_money.py::test_a_limit_on_each_job_holds_beside_the_limit_on_all",
        ),
    ),
    # the command line, and who waits
    Plant(
        name="a failed job exits 0 with --json",
        file="gputrain/cli/commands.py",
        text="        return Exit.OK if job.state is State.SUCCEEDED else Exit.JOB\n",
        instead="        return Exit.OK\n",
        caught_by=(f"{COMMANDS}::test_a_job_that_fails_ends_with_1_and_its_own_traceback",),
    ),
    Plant(
        name="clean-up --json removes what it was only to show",
        file="gputrain/cli/commands.py",
        text="    removes = options.yes or not options.json\n",
        instead="    removes = True\n",
        caught_by=(f"{COMMANDS}::test_what_no_job_needs_is_shown_and_removed_once_that_is_said",),
    ),
    Plant(
        name="a key of a --json document has another name",
        file="gputrain/cli/documents.py",
        text='{"is_ok": checks.is_ok,',
        instead='{"ok": checks.is_ok,',
        caught_by=(f"{COMMANDS}::test_doctor_exits_0_where_all_is_well_and_3_with_the_fix_where_not",),
    ),
    Plant(
        name="a job that is awaited is looked at once and no more",
        file="gputrain/job/watcher.py",
        text="        one.due = one.seen_at + pause\n",
        instead='        one.due = float("inf")\n',
        caught_by=(
            "tests/unit/test_job_futures.py::test_a_future_gives_the_result_or_its_error_each_time_anew",
        ),
    ),
    # the emulator, on which most of the other tests stand
    Plant(
        name="the emulator bills a VM that has halted",
        file="emulator/gputrain_emulator/compute/lifecycle.py",
        text='stop_meter(vm.path)\n    compute.world.ledger.write("stop", vm.path)\n',
        instead='write("stop", vm.path)\n',
        caught_by=("emulator/tests/test_vm_ends.py::test_a_vm_that_is_off_costs_no_more",),
    ),
    Plant(
        name="the emulator accepts a field that Google does not know",
        file="emulator/gputrain_emulator/schema.py",
        text="        if field is None:\n            where = f",
        instead="        if field is None:\n            continue\n            where = f",
        caught_by=(
            "emulator/tests/test_server.py::test_unknown_fields_and_parameters_are_refused_in_googles_words",
        ),
    ),
)
