/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of typed datasets in a manifest: types and relations in that of the whole, and in that
 * of a part which of the usual arrays it has. Names determine the folders of the parts, so a
 * manifest cannot lead out of its folder.
 */
#include <string.h>

#include "base/base.h"
#include "dataset/checksum.h"
#include "dataset/manifest_field.h"
#include "dataset/state.h"

bool rung__manifest_in_place(const struct rung__manifest *m)
{
	return m->feature_file_count == 0 && !m->no_features;
}

uint32_t rung__manifest_fixed_files(const struct rung__manifest *m)
{
	return RUNG__FILES_FIXED - (m->no_graph ? 2u : 0u) - (m->no_maps ? 2u : 0u);
}

/* FOLDER/SOURCE.NAME.TARGET: names have no dots. */
static void name_folder(char *to, const char *folder, const char *source, const char *name,
                        const char *target)
{
	to = stpcpy(stpcpy(stpcpy(to, folder), "/"), source);
	to = stpcpy(stpcpy(to, "."), name);
	stpcpy(stpcpy(to, "."), target);
}

void rung__types_name_folders(struct rung__types *types, const bool *has_rows)
{
	for (uint32_t i = 0; i < types->type_count; i++)
		stpcpy(stpcpy(types->types[i].folder, RUNG__TYPE_FOLDER "/"), types->types[i].name);
	for (uint32_t i = 0; i < types->relation_count; i++) {
		const char *source = types->types[types->relations[i].source_type].name,
			   *target = types->types[types->relations[i].target_type].name,
			   *name = types->relations[i].name;

		name_folder(types->relations[i].folder, RUNG__LISTS_FOLDER, source, name, target);
		types->relations[i].rows_folder[0] = '\0';
		if (has_rows[i])
			name_folder(types->relations[i].rows_folder, RUNG__ROWS_FOLDER, source,
			            name, target);
	}
}

/* ---- writing ---- */

static json_t *sum_json(uint64_t sum)
{
	char digits[RUNG__CHECKSUM_DIGITS + 1];

	rung__checksum_text(sum, digits);
	return json_string(digits);
}

static json_t *types_json(const struct rung__types *types)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < types->type_count; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:b, s:o}", "name",
		                                      types->types[i].name, "vertices",
		                                      (json_int_t)types->types[i].vertex_count,
		                                      "features", types->types[i].has_features,
		                                      "checksum", sum_json(types->types[i].sum)));
	return list;
}

static json_t *relation_json(const struct rung__manifest *m, uint32_t idx)
{
	const struct rung__types *types = m->types;
	json_t *fanouts = json_array();

	for (uint32_t hop = 0; hop < m->fanout_count; hop++)
		json_array_append_new(fanouts, json_integer(types->relations[idx].fanouts[hop]));
	return json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "name", types->relations[idx].name,
	                 "source", types->types[types->relations[idx].source_type].name, "target",
	                 types->types[types->relations[idx].target_type].name, "edges",
	                 (json_int_t)types->relations[idx].edge_count, "fanouts", fanouts,
	                 "checksum", sum_json(types->relations[idx].sum), "rows",
	                 types->relations[idx].rows_folder[0]
	                         ? sum_json(types->relations[idx].rows_sum)
	                         : json_null());
}

int rung__manifest_put_types(const struct rung__manifest *m, json_t *root)
{
	const struct rung__types *types = m->types;
	json_t *list, *lists, *relations;
	int failed;

	failed = json_object_set_new(root, "kind", json_string(types ? "typed" : "part"));
	if (!types) {
		lists = m->no_graph ? json_null()
		                    : json_pack("{s:I}", "sources",
		                                (json_int_t)(m->source_count ? m->source_count
		                                                             : m->vertex_count));
		failed |= json_object_set_new(root, "maps", json_boolean(!m->no_maps));
		return failed | json_object_set_new(root, "graph", lists);
	}
	list = types_json(types);
	failed |= json_array_size(list) != types->type_count;
	failed |= json_object_set_new(root, "vertex_types", list);
	relations = json_array();
	for (uint32_t i = 0; i < types->relation_count; i++)
		failed |= json_array_append_new(relations, relation_json(m, i));
	failed |= json_object_set_new(root, "relations", relations);
	return failed | json_object_set_new(root, "seed_type",
	                                    json_string(types->types[types->seed_type].name));
}

/* ---- reading ---- */

bool rung__manifest_part_parse(const json_t *root, struct rung__manifest *m)
{
	const json_t *maps = json_object_get(root, "maps"), *graph = json_object_get(root, "graph");

	m->is_part = true;
	if (!rung__field_has_text(root, "kind", "part") || !json_is_boolean(maps))
		return false;
	m->no_maps = !json_is_true(maps);
	m->no_graph = json_is_null(graph);
	if (m->no_graph)
		return m->edge_count == 0;
	return rung__field_u64(graph, "sources", INT64_MAX / 16, &m->source_count) &&
	       m->source_count > 0 && (m->no_maps || m->source_count == m->vertex_count);
}

static bool get_sum(const json_t *object, const char *key, uint64_t *sum_out)
{
	const json_t *value = json_object_get(object, key);
	json_t *list = json_array();
	bool ok;

	/* the reader of lists checks the digits */
	json_array_append(list, (json_t *)(uintptr_t)value);
	ok = value && rung__field_sums(list, 1, sum_out);
	json_decref(list);
	return ok;
}

static bool get_name(const json_t *object, char *name)
{
	return rung__field_text(object, "name", name, RUNG__SPLIT_NAME_BYTES) &&
	       rung__split_name_ok(name);
}

/* Index of the type that a key names; type_count: none. */
static uint32_t find_type(const struct rung__types *types, const json_t *object, const char *key)
{
	uint32_t i = 0;

	while (i < types->type_count && !rung__field_has_text(object, key, types->types[i].name))
		i++;
	return i;
}

static bool get_types(const json_t *list, struct rung__types *types, uint64_t *vertices_out)
{
	uint64_t sum = 0;

	if (!json_is_array(list) || json_array_size(list) == 0 ||
	    json_array_size(list) > RUNG__TYPES_MAX)
		return false;
	for (uint32_t i = 0; i < json_array_size(list); i++) {
		const json_t *object = json_array_get(list, i),
			     *features = json_object_get(object, "features");

		if (!get_name(object, types->types[i].name) || !json_is_boolean(features) ||
		    !rung__field_u64(object, "vertices", INT64_MAX / 16,
		                     &types->types[i].vertex_count) ||
		    types->types[i].vertex_count == 0 ||
		    !get_sum(object, "checksum", &types->types[i].sum))
			return false;
		/* type_count is the number before this one: no name twice */
		if (find_type(types, object, "name") < types->type_count)
			return false;
		types->types[i].has_features = json_is_true(features);
		sum += types->types[i].vertex_count;
		types->type_count = i + 1;
	}
	*vertices_out = sum;
	return true;
}

/* A fanout of 0 draws nothing. */
static bool get_fanouts(const json_t *object, uint32_t count, uint32_t *fanouts)
{
	const json_t *list = json_object_get(object, "fanouts");

	if (!json_is_array(list) || json_array_size(list) != count)
		return false;
	for (uint32_t hop = 0; hop < count; hop++) {
		const json_t *fanout = json_array_get(list, hop);

		if (!json_is_integer(fanout) || json_integer_value(fanout) < 0 ||
		    json_integer_value(fanout) > UINT32_MAX)
			return false;
		fanouts[hop] = (uint32_t)json_integer_value(fanout);
	}
	return true;
}

static bool get_relation(const json_t *object, const struct rung__manifest *m, uint32_t idx,
                         bool *has_rows)
{
	struct rung__types *types = m->types;

	types->relations[idx].source_type = find_type(types, object, "source");
	types->relations[idx].target_type = find_type(types, object, "target");
	*has_rows = !json_is_null(json_object_get(object, "rows"));
	if (!get_name(object, types->relations[idx].name) ||
	    types->relations[idx].source_type == types->type_count ||
	    types->relations[idx].target_type == types->type_count ||
	    !rung__field_u64(object, "edges", INT64_MAX / 16, &types->relations[idx].edge_count) ||
	    !get_fanouts(object, m->fanout_count, types->relations[idx].fanouts) ||
	    !get_sum(object, "checksum", &types->relations[idx].sum))
		return false;
	return !*has_rows || get_sum(object, "rows", &types->relations[idx].rows_sum);
}

/* No two relations with the same names: they would share a folder. */
static bool relations_differ(const struct rung__types *types)
{
	for (uint32_t i = 0; i < types->relation_count; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(types->relations[i].folder, types->relations[j].folder) == 0)
				return false;
		}
	}
	return true;
}

static bool get_relations(const json_t *list, const struct rung__manifest *m, uint64_t *edges_out)
{
	bool has_rows[RUNG__RELATIONS_MAX];
	uint64_t sum = 0;

	if (!json_is_array(list) || json_array_size(list) > RUNG__RELATIONS_MAX)
		return false;
	for (uint32_t i = 0; i < json_array_size(list); i++) {
		if (!get_relation(json_array_get(list, i), m, i, &has_rows[i]))
			return false;
		sum += m->types->relations[i].edge_count;
	}
	m->types->relation_count = (uint32_t)json_array_size(list);
	rung__types_name_folders(m->types, has_rows);
	*edges_out = sum;
	return relations_differ(m->types);
}

const char *rung__manifest_types_parse(const json_t *root, struct rung__manifest *m)
{
	uint64_t vertices = 0, edges = 0;

	m->types = rung__zalloc(sizeof(*m->types));
	if (!m->types)
		return "";
	if (!get_types(json_object_get(root, "vertex_types"), m->types, &vertices))
		return "vertex_types";
	if (!get_relations(json_object_get(root, "relations"), m, &edges))
		return "relations";
	if (vertices != m->vertex_count || edges != m->edge_count)
		return "vertices, edges";
	m->types->seed_type = find_type(m->types, root, "seed_type");
	return m->types->seed_type < m->types->type_count ? NULL : "seed_type";
}
