/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description of a data set (dataset.json, docs/DATASET.md) as a preset.
 *
 * All of it is checked, also the parts that were not requested; only the files of requested parts
 * are opened. Keys that this version does not know are refused: ignoring a misspelled or newer key
 * would stage other data than the author of the file meant. Therefore new keys need no new version.
 */
#include <string.h>

#include "base/base.h"
#include "preset/description.h"

#define FORMAT_NAME    "rung-source"
#define FORMAT_VERSION 1u
#define BYTES_MAX      (16u << 20) /* as for a manifest */

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

/* ---- settings ---- */

static int get_training(struct rung__preset *p, const struct rung__described *root)
{
	static const char *const keys[] = { "fanouts", "batch_size", "draws", "seed_type", NULL };
	struct rung__described training;
	const char *draws = "all";
	uint64_t batch_size = 0;
	int rc = rung__described_object(root, "training", "training.", &training);

	if (rc < 0 || !training.json)
		return rc;
	if ((rc = rung__described_keys(&training, keys)) < 0 ||
	    (rc = rung__described_fanouts(&training, "fanouts", 1, p->fanouts,
	                                  &p->derived.fanout_count)) < 0 ||
	    (rc = rung__described_count(&training, "batch_size", false, 1, UINT32_MAX,
	                                &batch_size)) < 0 ||
	    (rc = rung__described_text(&training, "draws", false, "\"all\" or \"new\"", &draws)) <
	            0)
		return rc;
	if (strcmp(draws, "all") != 0 && strcmp(draws, "new") != 0)
		return rung__described_refuse(&training, "draws",
		                              "is an unknown word; use \"all\" or \"new\"");
	p->derived.fanouts = p->derived.fanout_count ? p->fanouts : NULL;
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
		rc = get_training(p,
		                  &root); /* relations have fanouts for the same number of hops */
	if (rc == 0)
		rc = rung__described_graph(p, &root);
	json_decref(json);
	return rc;
}
