// SPDX-License-Identifier: Apache-2.0
// The headers in C++: options from their initialising functions, a call that succeeds and one that
// fails.
#include <rung/rung.h>

#include <cstdio>
#include <string>

static int wrong_sizes;

template <class Opts> static Opts check(Opts opts)
{
	wrong_sizes += opts.size != sizeof(opts);
	return opts;
}

int main()
{
	rung_stage_opts stage = check(rung_stage_opts_init());
	rung_dataset *ds = nullptr;

	check(stage.graph);
	check(stage.score);
	check(check(rung_loader_opts_init()).sampler);
	check(check(rung_edges_opts_init()).graph);
	check(rung_loader_pass_init());
	check(rung_graph_opts_init());
	check(rung_score_opts_init());
	check(rung_sampler_opts_init());
	check(rung_minibatches_init());
	check(rung_gpu_sampler_opts_init());
	check(rung_plan_opts_init());
	check(rung_forecast_opts_init());
	check(rung_store_opts_init());
	check(rung_verify_opts_init());
	check(rung_trace_opts_init());
	check(rung_numa_measure_opts_init());
	if (wrong_sizes > 0) {
		std::fprintf(stderr, "%d sizes of options are not set\n", wrong_sizes);
		return 1;
	}
	if (rung_dataset_open("no/such/dataset", &ds) != RUNG_E_NOENT ||
	    std::string(rung_last_error()).find("no/such/dataset") == std::string::npos) {
		std::fprintf(stderr, "unexpected error: %s\n", rung_last_error());
		return 1;
	}
	std::printf("rung %s\n", rung_version());
	return 0;
}
