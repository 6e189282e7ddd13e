/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.json, which names the arrays of a model and their roles: see docs/DATASET.md. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "generate.h"
#include "output/json.h"

json_t *gen_types_json(const struct gen_job *job)
{
	const struct gen_typed *typed = job->typed;
	json_t *counts = json_object();

	tool_json_set(counts, job->graph.model->vertex_type, tool_json_u64(job->graph.vertices));
	tool_json_set(counts, "author", tool_json_u64(typed->authors));
	tool_json_set(counts, "institution", tool_json_u64(typed->institutions));
	return counts;
}

json_t *gen_relations_json(const struct gen_job *job)
{
	const struct gen_typed *typed = job->typed;
	json_t *counts = json_object();

	tool_json_set(counts, job->graph.model->relation, tool_json_u64(job->graph.edges));
	tool_json_set(counts, "writes", tool_json_u64(typed->writes.edges));
	tool_json_set(counts, "affiliated_with", tool_json_u64(typed->affiliations.edges));
	return counts;
}

json_t *gen_params_json(const struct gen_graph *graph)
{
	json_t *object = json_object();

	for (const struct gen_param *param = gen_param_list; param->name; param++)
		tool_json_set(object, param->name,
		              tool_json_real(*(const double *)((const char *)&graph->params +
		                                               param->offset)));
	return object;
}

static json_t *about_json(const struct gen_job *job)
{
	const struct gen_graph *graph = &job->graph;
	json_t *about = json_object();

	tool_json_set(about, "generator", tool_json_text(job->command));
	tool_json_set(about, "version", tool_json_text(rung_version()));
	tool_json_set(about, "model", tool_json_text(graph->model->name));
	tool_json_set(about, "original", tool_json_text(graph->model->about));
	tool_json_set(about, "original_vertices", tool_json_u64(graph->model->vertices));
	tool_json_set(about, "original_edges", tool_json_u64(graph->model->edges));
	tool_json_set(about, "scale",
	              job->scale ? tool_json_real(1.0 / (double)job->scale) : json_null());
	tool_json_set(about, "seed", tool_json_u64(job->seed));
	tool_json_set(about, "classes", tool_json_u64(graph->classes));
	tool_json_set(about, "parameters", gen_params_json(graph));
	return about;
}

static json_t *splits_json(const struct gen_job *job)
{
	static const char *const names[][2] = { { "train", "train.npy" },
		                                { "valid", "valid.npy" },
		                                { "test", "test.npy" } };
	json_t *splits = json_object();

	for (int i = 0; i < GEN_SPLITS; i++) {
		if (job->graph.split_count[i])
			tool_json_set(splits, names[i][0], tool_json_text(names[i][1]));
	}
	return splits;
}

/* A type that has only features. */
static json_t *type_json(const char *name, uint64_t count, const char *features)
{
	json_t *type = json_object();

	tool_json_set(type, "name", tool_json_text(name));
	tool_json_set(type, "count", tool_json_u64(count));
	tool_json_set(type, "features", tool_json_text(features));
	return type;
}

static json_t *vertices_json(const struct gen_job *job)
{
	const struct gen_graph *graph = &job->graph;
	json_t *list = json_array(), *arrays;
	json_t *type = type_json(graph->model->vertex_type, graph->vertices, "features.npy");

	tool_json_set(type, "labels", tool_json_text("labels.npy"));
	if (graph->model->year) {
		arrays = json_object();
		tool_json_set(arrays, "year", tool_json_text("year.npy"));
		tool_json_set(type, "arrays", arrays);
	}
	tool_json_set(type, "splits", splits_json(job));
	tool_json_append(list, type);
	if (job->typed) {
		tool_json_append(list,
		                 type_json("author", job->typed->authors, "author_features.npy"));
		tool_json_append(list, type_json("institution", job->typed->institutions,
		                                 "institution_features.npy"));
	}
	return list;
}

static json_t *relation_json(const char *name, const char *source, const char *target,
                             const char *edges, uint64_t count)
{
	json_t *relation = json_object();

	tool_json_set(relation, "name", tool_json_text(name));
	tool_json_set(relation, "source", tool_json_text(source));
	tool_json_set(relation, "target", tool_json_text(target));
	tool_json_set(relation, "edges", tool_json_text(edges));
	tool_json_set(relation, "count", tool_json_u64(count));
	return relation;
}

/* A relation and the one against its edges, which is not written. */
static void add_both_ways(json_t *list, const char *name, const char *target, const char *edges,
                          uint64_t count)
{
	char reverse[32];
	json_t *relation;

	snprintf(reverse, sizeof(reverse), "rev_%s", name);
	tool_json_append(list, relation_json(name, "author", target, edges, count));
	relation = relation_json(reverse, target, "author", edges, count);
	tool_json_set(relation, "reversed", json_true());
	tool_json_append(list, relation);
}

static json_t *relations_json(const struct gen_job *job)
{
	const struct gen_model *model = job->graph.model;
	const struct gen_typed *typed = job->typed;
	json_t *list = json_array(),
	       *relation = relation_json(model->relation, model->vertex_type, model->vertex_type,
	                                 "edges.npy", job->graph.edges);

	tool_json_set(relation, "undirected", json_boolean(model->undirected));
	tool_json_append(list, relation);
	if (typed) {
		add_both_ways(list, "writes", model->vertex_type, "writes.npy",
		              typed->writes.edges);
		add_both_ways(list, "affiliated_with", "institution", "affiliated_with.npy",
		              typed->affiliations.edges);
	}
	return list;
}

/* The density of the original's batches, as in `rung plan --model`: the model's batch is smaller by
 * the scale, or by the ratio of the vertices if these were given. It is not larger than the
 * original's, because a batch must fit in memory. */
static uint64_t batch_size(const struct gen_job *job)
{
	const struct gen_model *model = job->graph.model;
	uint64_t batch = model->batch_size;

	if (job->scale)
		batch /= job->scale;
	else if (job->graph.vertices < model->vertices)
		batch = batch * job->graph.vertices / model->vertices;
	return batch ? batch : 1;
}

static json_t *dataset_json(const struct gen_job *job)
{
	const struct gen_model *model = job->graph.model;
	json_t *root = json_object(), *training = json_object();

	tool_json_set(root, "format", tool_json_text("rung-source"));
	tool_json_set(root, "version", tool_json_u64(1));
	tool_json_set(root, "name", tool_json_text(job->name));
	tool_json_set(root, "about", about_json(job));
	tool_json_set(root, "vertex_types", vertices_json(job));
	tool_json_set(root, "relations", relations_json(job));
	tool_json_set(training, "fanouts", tool_json_u32s(model->fanouts, model->hop_count));
	tool_json_set(training, "batch_size", tool_json_u64(batch_size(job)));
	tool_json_set(training, "draws", tool_json_text("all"));
	tool_json_set(root, "training", training);
	return root;
}

int gen_write_description(struct gen_job *job)
{
	struct gen_file *file;
	json_t *root;
	int err, code = gen_folder_create(&job->folder, "dataset.json", &file);

	if (code != TOOL_DONE)
		return code;
	root = dataset_json(job);
	/* a short write means that no more fits; errno is not set then */
	errno = 0;
	err = json_dumpfd(root, file->fd, JSON_INDENT(2)) < 0 || write(file->fd, "\n", 1) != 1
	              ? errno ? errno : ENOSPC
	              : 0;
	json_decref(root); /* may change errno */
	return err ? gen_folder_refuse(&job->folder, file, err) : TOOL_DONE;
}
