"""Faults that a maintainer could introduce, each against one promise, and the tests that catch each.

A change that moves the text of a fault moves the fault too: plant it where the promise is kept now.
"""

from tests.planted.plant import Plant

SPEC = "tests/unit/spec/test_spec.py"
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
        file="gputrain/spec/spec.py",
        text='            errors.add(key, given[key], "", nearest_field(key), problem="no such field")\n',
        instead="            continue\n",
        caught_by=(f"{SPEC}::test_an_unknown_keyword_names_the_nearest_field",),
    ),
    Plant(
        name="a limit of 90 minutes lasts 90 hours",
        file="gputrain/spec/duration.py",
        text='"m": 60,',
        instead='"m": 3_600,',
        caught_by=("tests/unit/spec/test_duration.py::test_durations_are_read_as_people_write_them",),
    ),
    Plant(
        name="a password in env is shown by print(spec)",
        file="gputrain/spec/spec.py",
        text="show=lambda env: _redacted(hide_secrets(env))",
        instead="show=_redacted",
        caught_by=(f"{SPEC}::test_a_secret_is_warned_of_and_not_shown",),
    ),
    # the plan: order, price, quota
    Plant(
        name="a cheaper region comes before the user's first one",
        file="gputrain/planning/candidates.py",
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
        file="gputrain/catalog/data/machines.csv",
        text="a3-highgpu-8g,a3-high,8,",
        instead="a3-highgpu-8g,a3-high,4,",
        caught_by=("tests/laws/test_catalog_and_emulator_agree.py::test_on_how_many_gpus_apis_count",),
    ),
    Plant(
        name="the price of attached GPUs is that of one of them",
        file="gputrain/catalog/lookup.py",
        text="float(row[column]) * (float(shape.gpu_count) if shape.is_attached else 1)",
        instead="float(row[column])",
        caught_by=("tests/unit/catalog/test_pricing.py::test_attached_gpus_cost_at_least_their_own_price",),
    ),
    Plant(
        name="a quota that could not be read blocks the plan",
        file="gputrain/quota/model.py",
        text="            return Verdict.UNKNOWN\n",
        instead="            return Verdict.SHORT\n",
        caught_by=(
            "tests/unit/compute/test_compute_availability.py::test_offline_there_is_a_plan_with_everything_unknown",
        ),
    ),
    Plant(
        name="a quota of zero is not read",
        file="gputrain/quota/reader.py",
        text='limit_of(details.get("value", 0))',
        instead='limit_of(details.get("value"))',
        caught_by=("tests/unit/quota/test_quota_reader.py::test_a_quota_of_zero_is_short_and_not_unknown",),
    ),
    Plant(
        name="a plan uploads the code",
        file="gputrain/trainer/planner.py",
        text="        code = examine(spec, is_sent",
        instead="        for one in found.candidates[:1]:\n"
        "            backend = self.backends[one.backend]\n"
        '            backend.upload(backend.package(spec, "plan"))\n'
        "        code = examine(spec, is_sent",
        caught_by=(f"{BILLS}::test_a_plan_of_code_that_no_job_has_sent_yet_writes_nothing",),
    ),
    Plant(
        name="doctor finds nothing wrong where a permission is missing",
        file="gputrain/doctor/google.py",
        text="_check(client, one, name, one.name in held)",
        instead="_check(client, one, name, True)",
        caught_by=(
            "tests/unit/doctor/test_permissions.py::test_each_missing_permission_is_one_fault_with_the_command_that_grants_it",
        ),
    ),
    # the code that travels
    Plant(
        name="the .env beside a script travels",
        file="gputrain/code/bundle.py",
        text="        for rules in (own, (IgnoreFile(SECRET, _SECRET),), ignored,",
        instead="        for rules in (own, ignored,",
        caught_by=(f"{TRAVELS}::test_what_holds_credentials_by_its_name_stays_behind_and_is_told",),
    ),
    Plant(
        name="what git ignores from the top of a repository travels",
        file="gputrain/code/bundle.py",
        text="            if rules is ignored and path in lines:\n",
        instead="            if False:\n",
        caught_by=(f"{TRAVELS}::test_rules_from_the_top_of_the_repository_hold_in_every_folder",),
    ),
    Plant(
        name="a file that holds a key travels",
        file="gputrain/code/bundle.py",
        text="            found.append((one.path, form))\n",
        instead="            pass\n",
        caught_by=(f"{TRAVELS}::test_a_small_file_with_a_key_is_refused_by_name",),
    ),
    Plant(
        name="code is unpacked outside its folder",
        file="gputrain/runtime/loader.py",
        text='{"", ".", ".."} & set(parts)',
        instead='{"", "."} & set(parts)',
        caught_by=(
            "tests/security/test_what_is_unpacked.py::test_no_archive_of_a_hundred_writes_outside_or_makes_anything_but_plain_files",
        ),
    ),
    Plant(
        name="code that was changed in the bucket runs",
        file="gputrain/runtime/loader.py",
        text='    if hashlib.sha256(data).hexdigest() != job["sha256"]:\n',
        instead='    if not job["sha256"]:\n',
        caught_by=(
            "tests/unit/code/check/test_container_side.py::test_code_that_was_exchanged_under_its_name_is_never_unpacked_or_run",
        ),
    ),
    # the request
    Plant(
        name="$(NAME) in a variable is expanded on Vertex AI",
        file="gputrain/backends/vertex/request.py",
        text='for name, value in env.items() if "$" in value',
        instead="for name, value in {}.items()",
        caught_by=(f"{BACKENDS}::test_arguments_and_environment_arrive_as_they_were_given[vertex-rest]",),
    ),
    Plant(
        name="an argument with a space in it arrives as two",
        file="gputrain/backends/agent_reports.py",
        text='"argv": list(bundle.argv),',
        instead='"argv": " ".join(bundle.argv).split(),',
        caught_by=(f"{BACKENDS}::test_arguments_and_environment_arrive_as_they_were_given[vertex-rest]",),
    ),
    Plant(
        name="a job on Vertex AI has no time limit",
        file="gputrain/backends/vertex/request.py",
        text='        "timeout": _seconds(candidate.max_run_duration),\n',
        instead="",
        caught_by=(
            f"{BILLS}::test_a_job_that_everybody_forgot_bills_until_its_limit_and_leaves_no_disk[vertex]",
        ),
    ),
    Plant(
        name="a VM whose time is over is stopped and its disk bills on",
        file="gputrain/backends/compute/request.py",
        text='"instanceTerminationAction": "DELETE"',
        instead='"instanceTerminationAction": "STOP"',
        caught_by=(
            f"{BILLS}::test_a_job_that_everybody_forgot_bills_until_its_limit_and_leaves_no_disk[compute]",
        ),
    ),
    Plant(
        name="a Spot job is made and billed as a standard one",
        file="gputrain/backends/compute/request.py",
        text='"provisioningModel": model.name,',
        instead='"provisioningModel": "STANDARD",',
        caught_by=(f"{BILLS}::test_a_spot_job_is_billed_as_one[compute]",),
    ),
    Plant(
        name="the user's labels do not reach the machines",
        file="gputrain/google/labels.py",
        text="        **theirs,\n",
        instead="",
        caught_by=("tests/cloud/test_requests.py::test_a_field_of_a_spec_stands_in_the_request",),
    ),
    Plant(
        name="VMs run as the project's default account",
        file="gputrain/backends/compute/request.py",
        text='{"email": settings.service_account, "scopes"',
        instead='{"email": "default", "scopes"',
        caught_by=(
            "tests/cloud/test_requests.py::test_an_argument_of_a_cloud_backend_stands_in_the_request",
        ),
    ),
    Plant(
        name="a job runs in whatever its image's tag means by then",
        file="gputrain/backends/vertex/backend.py",
        text="lambda image: resolve_digest(self._access, image)",
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
        text="action=action, policy=CREATE",
        instead="action=action, policy=LOOK",
        caught_by=(f"{BILLS}::test_a_create_whose_answer_was_lost_makes_one_job[vertex]",),
    ),
    Plant(
        name="a cancel deletes one node and forgets the others",
        file="gputrain/backends/compute/vms.py",
        text="    def _there(self, vms: AttemptVms) -> dict[str, Json]:\n",
        instead="    def _there(self, vms: AttemptVms) -> dict[str, Json]:\n"
        "        vms = attrs.evolve(vms, names=vms.names[:1])\n",
        caught_by=(f"{BILLS}::test_a_cancel_ends_every_node[compute]",),
    ),
    Plant(
        name="clean-up removes the machines of a job that runs",
        file="gputrain/trainer/jobs.py",
        text="    return [one for one in machines if (one.job_id, one.attempt) not in living]",
        instead="    return list(machines)",
        caught_by=(f"{BILLS}::test_a_clean_up_leaves_what_runs_and_what_others_own",),
    ),
    Plant(
        name="clean-up removes the machines of another bucket's jobs",
        file="gputrain/backends/compute/vms.py",
        text='self.calls.all_instances(f"labels.{LABEL_JOB}:* AND labels.{LABEL_OWNER}={self.home}")',
        instead='self.calls.all_instances(f"labels.{LABEL_JOB}:*")',
        caught_by=(f"{BILLS}::test_a_clean_up_leaves_what_runs_and_what_others_own",),
    ),
    Plant(
        name="a preempted job starts again for ever",
        file="gputrain/orchestration/look.py",
        text="max(0, spec.max_restarts - record.restarts)",
        instead="max(0, spec.max_restarts)",
        caught_by=(f"{BILLS}::test_a_preempted_job_starts_again_as_often_as_was_asked_and_no_more",),
    ),
    Plant(
        name="each attempt of a job gets its whole time again",
        file="gputrain/orchestration/options.py",
        text="int(spec.max_run_duration.total_seconds() - record.used_s)",
        instead="int(spec.max_run_duration.total_seconds())",
        caught_by=(f"{BILLS}::test_the_attempts_of_a_job_have_its_time_limit_together",),
    ),
    Plant(
        name="Vertex AI restarts a job that asked for no restart",
        file="gputrain/backends/vertex/request.py",
        text="    if spec.max_restarts == 0:\n",
        instead="    if spec.max_restarts < 0:\n",
        caught_by=(f"{BILLS}::test_a_job_that_asked_for_no_restart_ends_with_its_machine[vertex]",),
    ),
    Plant(
        name="two jobs of one attempt both train on Vertex AI",
        file="gputrain/runtime/setup.py",
        text="    if holder != me:\n",
        instead="    if False:\n",
        caught_by=(
            "tests/unit/code/check/test_container_fence.py::test_all_replicas_of_the_second_job_of_an_attempt_do_nothing_and_end_well",
        ),
    ),
    Plant(
        name="a record is written over what another process wrote",
        file="gputrain/jobstore/store.py",
        text="content, if_generation=version,",
        instead="content, if_generation=None,",
        caught_by=(
            "tests/unit/jobstore/test_store.py::test_of_two_that_read_the_same_version_one_writes[bucket]",
        ),
    ),
    Plant(
        name="a place is asked before the record names the attempt",
        file="gputrain/orchestration/launcher.py",
        text="            self._swap(record.begin(",
        instead="            backend.launch(request)\n            self._swap(record.begin(",
        caught_by=(
            "tests/unit/trainer/test_submit.py::test_no_place_is_asked_for_what_the_record_does_not_name",
        ),
    ),
    Plant(
        name="a VM does not ask whether it may train",
        file="gputrain/runtime/vm.py",
        text="        if said != MINE:\n",
        instead="        if False:\n",
        caught_by=(
            "tests/unit/runtime/test_vm_fence.py::test_a_vm_that_may_not_train_leaves_before_it_begins",
        ),
    ),
    Plant(
        name="a VM that trains never hears that it is superseded",
        file="gputrain/runtime/reports.py",
        text="            says = self.fence.while_running()\n            if",
        instead="            says = MINE\n            if",
        caught_by=(
            "tests/unit/runtime/test_vm_fence.py::test_a_board_hears_of_a_cancel_and_then_of_another_attempt",
        ),
    ),
    Plant(
        name="what a list of VMs lacks is gone",
        file="gputrain/backends/compute/status.py",
        text="            vm = self._calls.instance(vms.zone, name)\n",
        instead="            vm = None\n",
        caught_by=(
            "tests/unit/compute/test_compute_attempts.py::test_what_lists_lack_is_asked_for_by_its_name",
        ),
    ),
    Plant(
        name="nodes that save are deleted with the first that was lost",
        file="gputrain/orchestration/reconciler.py",
        text="    if lost_for_s >= may_take_s:\n",
        instead="    if lost_for_s >= 0:\n",
        caught_by=(
            "tests/unit/compute/test_compute_attempts.py::test_a_half_gang_saves_is_ended_and_is_replaced_with_a_new_attempt",
        ),
    ),
    Plant(
        name="a cancel starts the job again",
        file="gputrain/orchestration/reconciler.py",
        text="    if record.wanted is Wanted.CANCEL:\n"
        "        return End(result=causes.CANCELLED.kind)\n"
        "    if record.attempt.state",
        instead="    if record.attempt.state",
        caught_by=("tests/unit/trainer/test_submit.py::test_what_is_cancelled_goes_on_nowhere",),
    ),
    Plant(
        name="ranks of a superseded VM may save beside those of another attempt",
        file="gputrain/runtime/supervisor.py",
        text="            self.stop, self._kill_at = contract.SUPERSEDED, now\n",
        instead="            self.stop = contract.SUPERSEDED\n",
        caught_by=(
            "tests/unit/runtime/test_vm_fence.py::test_who_is_superseded_is_killed_at_once_whatever_was_asked_before",
        ),
    ),
    Plant(
        name="a full zone rules out its whole region",
        file="gputrain/planning/failover.py",
        text="for market in (place, region) if one.scope is Scope.REGION else (place,):",
        instead="for market in (place, region):",
        caught_by=(f"{BILLS}::test_a_full_zone_sends_the_job_to_the_next_one",),
    ),
    Plant(
        name="one key names two specs",
        file="gputrain/orchestration/launcher.py",
        text="            check_alike(stored.record.spec, first.spec,",
        instead="            check_alike(first.spec, first.spec,",
        caught_by=(f"{BILLS}::test_a_key_of_another_spec_starts_nothing",),
    ),
    # what strangers can reach
    Plant(
        name="a token follows a redirect",
        file="gputrain/google/auth.py",
        text="    session.max_redirects = 0 ",
        instead="    session.max_redirects = 30 ",
        caught_by=("tests/security/test_where_tokens_go.py::test_a_trainers_token_follows_no_redirect",),
    ),
    Plant(
        name="a token goes to any host that an endpoint names",
        file="gputrain/google/client.py",
        text="        check_address(api.value, address)",
        instead="        ",
        caught_by=("tests/security/test_where_tokens_go.py::test_an_object_of_anybodys_is_looked_at_too",),
    ),
    Plant(
        name="an error shows the token that a service sent back",
        file="gputrain/google/errors.py",
        text="    clean = redact(text[: 2 * LONGEST])",
        instead="    clean = text[: 2 * LONGEST]",
        caught_by=(
            "tests/security/check/test_canaries.py::test_no_token_that_a_service_throws_back_is_shown",
        ),
    ),
    Plant(
        name="a log line moves the cursor of the terminal",
        file="gputrain/text.py",
        text='_COLOR = r"\\x1b\\[[0-9;:]{0,40}m"',
        instead='_COLOR = r"\\x1b\\[[0-9;:]{0,40}[A-Za-z]"',
        caught_by=(
            "tests/security/test_what_is_shown.py::test_log_lines_keep_their_colour_and_nothing_else",
        ),
    ),
    Plant(
        name="a status document in a bucket may hold anything",
        file="gputrain/backends/agent_reports.py",
        text='.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else None\n',
        instead="  # type: ignore[return-value]\n",
        caught_by=(
            "tests/unit/test_causes.py::test_a_failure_holds_texts_and_numbers_whatever_a_bucket_holds",
        ),
    ),
    Plant(
        name="a job starts again with what a record in the bucket says of accounts",
        file="gputrain/trainer/planner.py",
        text="        return not other\n",
        instead="        return True\n",
        caught_by=(
            "tests/unit/vertex/test_vertex_observe.py::test_a_process_with_another_account_makes_nothing_and_says_with_which_it_would",
        ),
    ),
    Plant(
        name="text of others builds elements in a page",
        file="gputrain/text.py",
        text="    return html.escape(sanitize(text))\n",
        instead="    return sanitize(text)\n",
        caught_by=("tests/security/test_what_is_shown.py::test_no_text_builds_anything_in_a_page",),
    ),
    # how a job ends
    Plant(
        name="the echo on a healthy rank is reported as the cause",
        file="gputrain/runtime/failures.py",
        text="        self.is_symptom = is_symptom(cause)\n",
        instead="        self.is_symptom = False\n",
        caught_by=(
            "tests/entrypoint/check/test_root_cause.py::test_every_node_names_the_rank_that_failed_first",
        ),
    ),
    Plant(
        name="a job that was stopped exits as one that has finished",
        file="gputrain/runtime/failures.py",
        text="        return job_result(contract.STATE_STOPPED, contract.STOPPED, None, asked)\n",
        instead="        return job_result(contract.STATE_STOPPED, contract.DONE, None, asked)\n",
        caught_by=(
            "tests/entrypoint/check/test_stops.py::test_a_signal_to_one_node_stops_all_ranks_of_all_nodes",
        ),
    ),
    Plant(
        name="a rank that is signalled saves alone",
        file="gputrain/ddp/process_group.py",
        text='            self.agreed = self._peers.any(self.asked, "asking whether to stop")\n',
        instead="            self.agreed = self.asked\n",
        caught_by=(
            "tests/entrypoint/check/test_ddp_ranks.py::test_a_stop_that_reaches_one_rank_saves_the_same_step_on_all",
        ),
    ),
    Plant(
        name="ranks of the second node have local ranks of their own",
        file="gputrain/runtime/launcher.py",
        text="        LOCAL_RANK=str(local_rank),\n",
        instead="        LOCAL_RANK=str(rank),\n",
        caught_by=(
            "tests/entrypoint/check/test_many_nodes.py::test_ranks_count_through_nodes_of_different_sizes",
        ),
    ),
    Plant(
        name="what a rank left running outlives the job",
        file="gputrain/runtime/processes.py",
        text="        left = set(host.children_of(os.getpid())) - spared\n",
        instead="        left: set[int] = set()\n",
        caught_by=(
            "tests/entrypoint/check/test_one_node.py::test_what_a_rank_left_running_ends_with_the_node",
        ),
    ),
    Plant(
        name="hang_timeout reaches no job",
        file="gputrain/backends/agent_reports.py",
        text="    if spec.hang_timeout is not None:\n",
        instead="    if spec.hang_timeout is None and spec.keep_outputs is None:\n",
        caught_by=("tests/cloud/test_requests.py::test_a_field_of_a_spec_stands_in_the_request",),
    ),
    Plant(
        name="the last line of a log is lost where it has no end",
        file="gputrain/runtime/logs.py",
        text="        return [_last_drawn(rest)] if rest else []\n",
        instead="        return []\n",
        caught_by=(
            "tests/entrypoint/check/test_logs.py::test_a_last_line_without_an_end_is_not_lost_and_one_drawn_anew_is_shown_as_drawn_last",
        ),
    ),
    # checkpoints and data
    Plant(
        name="a step without its marker counts as whole",
        file="gputrain/ddp/checkpoints.py",
        text="if os.path.exists(os.path.join(self._path(step), MARKER))]",
        instead="if os.path.exists(self._path(step))]",
        caught_by=(f"{CHECKPOINTS}::test_a_step_without_its_marker_gives_way_to_the_one_before",),
    ),
    Plant(
        name="the last checkpoint is removed before the next one is whole",
        file="gputrain/ddp/checkpoints.py",
        text="                shutil.rmtree(self._path(step), ignore_errors=True)",
        instead="                shutil.rmtree(self.directory, ignore_errors=True)",
        caught_by=(f"{CHECKPOINTS}::test_a_full_disk_is_told_and_the_last_checkpoint_stays",),
    ),
    Plant(
        name="a resumed run begins its epoch anew",
        file="gputrain/ddp/session.py",
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
        file="gputrain/experiments/record.py",
        text='f"{experiment} {canonical(self.point)}"',
        instead='f"{experiment} {id(self)}"',
        caught_by=(
            "tests/unit/experiments/check/test_experiment.py::test_another_process_or_another_day_takes_it_up_and_adds_what_is_missing",
        ),
    ),
    Plant(
        name="the max_cost of an experiment reaches no job",
        file="gputrain/experiments/record.py",
        text="        spec = base.replace(max_cost=min(limits, default=None))\n",
        instead="        spec = base\n",
        caught_by=(
            "tests/unit/vertex/test_vertex_fee.py::test_an_experiment_keeps_its_limit_on_vertex_ai",
            "tests/unit/experiments/test_budget.py::test_a_limit_on_each_job_holds_beside_the_limit_on_all",
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
        text="    removes = yes or not is_json()\n",
        instead="    removes = True\n",
        caught_by=(f"{COMMANDS}::test_what_no_job_needs_is_shown_and_removed_once_that_is_said",),
    ),
    Plant(
        name="a key of a --json document has another name",
        file="gputrain/cli/commands.py",
        text='{"is_ok": checks.is_ok,',
        instead='{"ok": checks.is_ok,',
        caught_by=(f"{COMMANDS}::test_doctor_exits_0_where_all_is_well_and_3_with_the_fix_where_not",),
    ),
    Plant(
        name="a job that is awaited is looked at once and no more",
        file="gputrain/job/watcher.py",
        text="        one.due = now + pause_s(one.job.poll_s, now - one.since) + EACH_S * (of - 1)\n",
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
        caught_by=("emulator/tests/test_world_laws.py::test_the_books_agree_with_the_world",),
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
