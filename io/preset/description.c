/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description of a data set (dataset.json, docs/DATASET.md) as a preset.
 *
 * All of it is checked, also the parts that were not requested; only the files of requested parts
 * are opened. Keys that this version does not know are refused: ignoring a misspelled or newer key
 * would stage other data than the author of the file meant.
 */
#include <string.h>

#include "base/base.h"
#include "preset/description.h"

#define FORMAT_NAME    "rung-source"
#define FORMAT_VERSION 1u
#define BYTES_MAX      (16u << 20) /* as for a manifest */
/* as in a manifest: offsets of the graph then stay below 2^63 bytes */
#define VERTICES_MAX (INT64_MAX / 16)

typedef int add_fn(struct rung__preset *p, const char *name, const char *spec);

/* Before all other keys: another version may define them differently. */
static int check_format(const struct rung__described *root)
{
	const char *format = NULL;
	uint64_t version = 0;
	int rc = rung__described_text(root, "format", true, "\"" FORMAT_NAME "\"", &format);

	if (rc == 0 && strcmp(format, RUNG__FORMAT_NAME) == 0)
		return rung__fail(RUNG_E_FORMAT,
		                  "%s: is the manifest of a staged dataset; give the dataset.json "
		                  "of a data set to stage",
		                  root->file);
	if (rc == 0 && strcmp(format, FORMAT_NAME) != 0)
		return rung__described_refuse(root, "format",
		                              "is not \"" FORMAT_NAME
		                              "\"; give the dataset.json of a data set");
	if (rc == 0)
		rc = rung__described_count(root, "version", true, 1, INT64_MAX, &version);
	if (rc == 0 && version != FORMAT_VERSION)
		return rung__described_refuse(root, "version",
		                              "is %" PRIu64 "; this version of rung reads "
		                              "version %u; write that version, or use a newer rung",
		                              version, FORMAT_VERSION);
	return rc;
}

/* The outermost object, except for its lists. */
static int get_root(struct rung__preset *p, const struct rung__described *root)
{
	static const char *const keys[] = { "format",       "version",   "name",     "about",
		                            "vertex_types", "relations", "training", NULL };
	struct rung__described about;
	const char *name = "";
	int rc;

	if ((rc = check_format(root)) < 0 || (rc = rung__described_keys(root, keys)) < 0 ||
	    (rc = rung__described_text(root, "name", false, "a text", &name)) < 0 ||
	    (rc = rung__described_object(root, "about", "about.", &about)) < 0)
		return rc;
	p->derived.title = rung__preset_text(p, "%s", name);
	return p->derived.title ? 0 : RUNG_E_NOMEM;
}

/* ---- vertices ---- */

/* Named sources. @param add  NULL: they were not requested. @param rows  whether each has a row per
 * vertex */
static int get_named(struct rung__preset *p, const struct rung__described *list, bool rows,
                     add_fn *add)
{
	const char *key, *spec = NULL;
	const json_t *value;
	int rc;

	/* the iteration does not change the object; jansson's macro has no const version */
	json_object_foreach((json_t *)(uintptr_t)list->json, key, value)
	{
		if ((rc = rung__described_check_name(list, key, key)) < 0 ||
		    (rc = rung__described_source(p, list, key, true, false, &spec)) < 0)
			return rc;
		if (!add)
			continue;
		rc = rows ? rung__described_check_rows(list, key, spec, p->derived.vertex_count)
		          : rung__described_check_ids(list, key, spec);
		if (rc == 0)
			rc = add(p, rung__preset_text(p, "%s", key), spec);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* "arrays" or "splits". */
static int get_list(struct rung__preset *p, const struct rung__described *type, bool arrays)
{
	const char *key = arrays ? "arrays" : "splits";
	const size_t most = arrays ? RUNG__ARRAYS_MAX : RUNG__SPLITS_MAX;
	const bool wanted = p->wanted & (arrays ? RUNG_PRESET_ARRAYS : RUNG_PRESET_SPLITS);
	add_fn *add = arrays ? rung__preset_add_array : rung__preset_add_split;
	struct rung__described list;
	int rc = rung__described_object(
		type, key, arrays ? "vertex_types[0].arrays." : "vertex_types[0].splits.", &list);

	if (rc < 0 || !list.json)
		return rc;
	if (json_object_size(list.json) > most)
		return rung__described_refuse(type, key, "has %zu entries; give at most %zu",
		                              json_object_size(list.json), most);
	return get_named(p, &list, arrays, wanted ? add : NULL);
}

/* A source with one row per vertex, which is opened if it is requested. */
static int get_rows(struct rung__preset *p, const struct rung__described *type, const char *key,
                    bool needed, bool wanted, const char **spec_out)
{
	const char *spec = NULL;
	int rc = rung__described_source(p, type, key, needed, false, &spec);

	if (rc == 0 && wanted && spec)
		rc = rung__described_check_rows(type, key, spec, p->derived.vertex_count);
	if (rc == 0 && wanted)
		*spec_out = spec;
	return rc;
}

static int get_type(struct rung__preset *p, const struct rung__described *root)
{
	static const char *const keys[] = { "name",   "count",  "features", "labels",
		                            "arrays", "splits", NULL };
	struct rung__described type;
	const char *name = NULL;
	int rc;

	if ((rc = rung__described_only(root, "vertex_types", "vertex type", "vertex_types[0].",
	                               &type)) < 0 ||
	    (rc = rung__described_keys(&type, keys)) < 0 ||
	    (rc = rung__described_name(&type, "name", &name)) < 0 ||
	    (rc = rung__described_count(&type, "count", true, 1, VERTICES_MAX,
	                                &p->derived.vertex_count)) < 0 ||
	    (rc = get_rows(p, &type, "features", true, p->wanted & RUNG_PRESET_FEATURES,
	                   &p->derived.features)) < 0 ||
	    (rc = get_rows(p, &type, "labels", false, p->wanted & RUNG_PRESET_LABELS,
	                   &p->derived.labels)) < 0 ||
	    (rc = get_list(p, &type, true)) < 0 || (rc = get_list(p, &type, false)) < 0)
		return rc;
	p->derived.vertex_type = rung__preset_text(p, "%s", name);
	return p->derived.vertex_type ? 0 : RUNG_E_NOMEM;
}

/* ---- edges ---- */

/* One end of the relation, which must be the only vertex type. */
static int check_end(const struct rung__described *relation, const char *key, const char *type)
{
	const char *name = NULL;
	int rc = rung__described_name(relation, key, &name);

	if (rc == 0 && strcmp(name, type) != 0)
		return rung__described_refuse(relation, key,
		                              "'%s' is not the name of a vertex type; use '%s'",
		                              name, type);
	return rc;
}

static int get_relation(struct rung__preset *p, const struct rung__described *root)
{
	static const char *const keys[] = { "name",  "source",     "target", "edges",
		                            "count", "undirected", NULL };
	struct rung__described relation;
	const char *name = NULL, *spec = NULL;
	uint64_t count = UINT64_MAX;
	int rc, undirected = 0;

	if ((rc = rung__described_only(root, "relations", "relation", "relations[0].", &relation)) <
	            0 ||
	    (rc = rung__described_keys(&relation, keys)) < 0 ||
	    (rc = rung__described_name(&relation, "name", &name)) < 0 ||
	    (rc = check_end(&relation, "source", p->derived.vertex_type)) < 0 ||
	    (rc = check_end(&relation, "target", p->derived.vertex_type)) < 0 ||
	    (rc = rung__described_source(p, &relation, "edges", true, true, &spec)) < 0 ||
	    (rc = rung__described_count(&relation, "count", false, 0, VERTICES_MAX, &count)) < 0 ||
	    (rc = rung__described_flag(&relation, "undirected", &undirected)) < 0)
		return rc;
	p->derived.relation = rung__preset_text(p, "%s", name);
	if (!p->derived.relation)
		return RUNG_E_NOMEM;
	if (!(p->wanted & RUNG_PRESET_GRAPH))
		return 0;
	p->derived.undirected = undirected;
	rc = rung__described_check_edges(&relation, "edges", spec, p->derived.vertex_count, count);
	return rc < 0 ? rc : rung__preset_add_graph(p, spec);
}

/* ---- settings ---- */

static int get_fanouts(struct rung__preset *p, const struct rung__described *training)
{
	const json_t *list = NULL;
	uint64_t fanout;
	int rc = rung__described_list(training, "fanouts", false, "a list such as [25, 15]", &list);

	if (rc < 0 || !list)
		return rc;
	if (json_array_size(list) < 1 || json_array_size(list) > RUNG_HOPS_MAX)
		return rung__described_refuse(training, "fanouts",
		                              "has %zu entries; give 1 to %d numbers",
		                              json_array_size(list), RUNG_HOPS_MAX);
	for (uint32_t i = 0; i < json_array_size(list); i++) {
		rc = rung__described_number(training, "fanouts", json_array_get(list, i), 1,
		                            UINT32_MAX, &fanout);
		if (rc < 0)
			return rc;
		p->fanouts[i] = (uint32_t)fanout;
	}
	p->derived.fanouts = p->fanouts;
	p->derived.fanout_count = (uint32_t)json_array_size(list);
	return 0;
}

static int get_training(struct rung__preset *p, const struct rung__described *root)
{
	static const char *const keys[] = { "fanouts", "batch_size", "draws", NULL };
	struct rung__described training;
	const char *draws = "all";
	uint64_t batch_size = 0;
	int rc = rung__described_object(root, "training", "training.", &training);

	if (rc < 0 || !training.json)
		return rc;
	if ((rc = rung__described_keys(&training, keys)) < 0 ||
	    (rc = get_fanouts(p, &training)) < 0 ||
	    (rc = rung__described_count(&training, "batch_size", false, 1, UINT32_MAX,
	                                &batch_size)) < 0 ||
	    (rc = rung__described_text(&training, "draws", false, "\"all\" or \"new\"", &draws)) <
	            0)
		return rc;
	if (strcmp(draws, "all") != 0 && strcmp(draws, "new") != 0)
		return rung__described_refuse(&training, "draws",
		                              "is an unknown word; use \"all\" or \"new\"");
	p->derived.batch_size = (uint32_t)batch_size;
	p->derived.draws = strcmp(draws, "new") == 0 ? RUNG_DRAWS_NEW : RUNG_DRAWS_ALL;
	return 0;
}

int rung__preset_description(struct rung__preset *p)
{
	struct rung__described root = { p->root, "", NULL };
	json_t *json = NULL;
	int rc;

	if (p->part)
		return rung__fail(RUNG_E_INVAL, "%s: a description has no part '%s'; give the file",
		                  p->root, p->part);
	rc = rung__described_read(p->root, BYTES_MAX, &json);
	root.json = json;
	if (rc == 0)
		rc = get_root(p, &root);
	if (rc == 0)
		rc = get_type(p, &root);
	if (rc == 0)
		rc = get_relation(p, &root);
	if (rc == 0)
		rc = get_training(p, &root);
	json_decref(json);
	return rc;
}
