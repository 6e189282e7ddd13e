// SPDX-License-Identifier: Apache-2.0
// The headers in C++: options from their initialising functions, a call that works and one that fails.
#include <rung/rung.h>

#include <cstdio>
#include <string>

int main()
{
	rung_graph_opts graph = rung_graph_opts_init();
	rung_stage_opts stage = rung_stage_opts_init();
	rung_plan_opts plan = rung_plan_opts_init();
	rung_store_opts store = rung_store_opts_init();
	rung_sampler_opts sampler = rung_sampler_opts_init();
	rung_loader_opts loader = rung_loader_opts_init();
	rung_loader_pass pass = rung_loader_pass_init();
	rung_score_opts score = rung_score_opts_init();
	rung_verify_opts verify = rung_verify_opts_init();
	rung_dataset *ds = nullptr;

	if (graph.size != sizeof(graph) || stage.graph.size != sizeof(graph) || stage.score.size != sizeof(score) ||
	    plan.size != sizeof(plan) || store.size != sizeof(store) || sampler.size != sizeof(sampler) ||
	    loader.size != sizeof(loader) || loader.sampler.size != sizeof(sampler) || pass.size != sizeof(pass) || verify.size != sizeof(verify)) {
		std::fprintf(stderr, "an initialising function does not set the size\n");
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
