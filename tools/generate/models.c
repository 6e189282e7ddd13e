/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models: numbers of the originals, from their publications, and parameters of the graph, which
 * are fitted. docs/GENERATE.md describes the fit and lists what is assumed.
 *
 * Numbers of vertices, edges, classes and splits, row widths: OGB's dataset pages and Hu et al.,
 * "OGB-LSC: A large-scale challenge for machine learning on graphs", 2021 (papers100M, MAG240M with
 * all vertex types and relations, WikiKG90M v2); Khatua et al., "IGB: Addressing the gaps in
 * labeling, features, heterogeneity, and size of public graph datasets", 2023 (IGB-full, papers
 * only). WikiKG90M has no labels: Min et al. 2021 train on it with synthetic ones.
 */
#include <stddef.h>
#include <string.h>

#include "generate.h"

/* Parameters of citation graphs, fitted to ogbn-arxiv. */
#define CITATIONS                                                                                  \
	.copy = 0.37, .run = 2, .home = 0.83, .kin = 0.17, .recency = 4.6, .fame = 0.99,           \
	.community = 7000, .spread = 0.43, .none = 0, .uneven = 0.46, .growth = 0.31, .mutual = 0, \
	.signal = 3

/* As citations, but with 80 % of the edges at 1 % of the vertices. */
#define ENTITIES                                                                                   \
	.copy = 0.88, .run = 8, .home = 0.83, .kin = 0.17, .recency = 1, .fame = 0.99,             \
	.community = 100000, .spread = 0.43, .none = 0, .uneven = 0.46, .growth = 0.31,            \
	.mutual = 0, .signal = 3

/* Parameters of the links between pages, fitted to debian-docs. */
#define LINKS                                                                                      \
	.copy = 0.84, .run = 100, .home = 1, .kin = 0, .recency = 0.86, .fame = 0.8,               \
	.community = 270, .spread = 0.4, .none = 0, .uneven = 1.64, .growth = 0.67,                \
	.mutual = 0.46, .signal = 3

/* Parameters of dependencies, fitted to debian. */
#define DEPENDENCIES                                                                               \
	.copy = 0.57, .run = 2, .home = 0.718, .kin = 0, .recency = 0.7, .fame = 0.962,            \
	.community = 108.3, .spread = 0.01, .none = 0.02, .uneven = 1.07, .growth = 0.405,         \
	.mutual = 0, .signal = 3

/* MAG240M, with the number of labelled vertices; in its typed form it has fewer others. */
#define LABELLED 1398159.0
#define MAG240M                                                                                    \
	.name = "mag240m", .undirected = true, .vertex_type = "paper", .relation = "cites",        \
	.dtype = RUNG_F16, .width = 768, .classes = 153, .train = 1112392 / LABELLED,              \
	.valid = 138949 / LABELLED, .by_time = true, .year = 2020, .ids = GEN_IDS_RANDOM,          \
	.fanouts = { 25, 15 }, .hop_count = 2, .batch_size = 1024, .params = { CITATIONS }

static const struct gen_others mag240m_others = {
	.authors = 122383112,
	.institutions = 25721,
	.writes = 386022720,
	.affiliations = 44592586,
};

static const struct gen_model mag240m_typed = {
	.about = "OGB-LSC MAG240M: papers, authors and institutions, as vertex types",
	.vertices = 121751666,
	.edges = 1297748926,
	.labelled = LABELLED / 121751666,
	.others = &mag240m_others,
	MAG240M,
};

static const struct gen_model models[] = {
	{
		.about = "OGB-LSC MAG240M: papers, authors and institutions",
		.vertices = 244160499,
		.edges = 1728364232,
		.labelled = LABELLED / 244160499,
		MAG240M,
	},
	{
		.name = "papers100m",
		.about = "ogbn-papers100M",
		.vertices = 111059956,
		.edges = 1615685872,
		.undirected = true,
		.vertex_type = "paper",
		.relation = "cites",
		.dtype = RUNG_F32,
		.width = 128,
		.classes = 172,
		.labelled = 1546782.0 / 111059956,
		.train = 1207179.0 / 1546782,
		.valid = 125265.0 / 1546782,
		.by_time = true,
		.year = 2019,
		.ids = GEN_IDS_RANDOM,
		.fanouts = { 12, 12, 12 },
		.hop_count = 3,
		.batch_size = 1024,
		.params = { CITATIONS },
	},
	{
		.name = "wikikg90m",
		.about = "OGB-LSC WikiKG90M v2: entities, with synthetic labels",
		.vertices = 91230610,
		.edges = 601062811,
		.undirected = true,
		.vertex_type = "entity",
		.relation = "links",
		.dtype = RUNG_F16,
		.width = 768,
		.classes = 172,
		.labelled = 0.0139,
		.train = 0.78,
		.valid = 0.08,
		.ids = GEN_IDS_RANDOM,
		.fanouts = { 12, 12, 12 },
		.hop_count = 3,
		.batch_size = 1024,
		.params = { ENTITIES },
	},
	{
		.name = "igb",
		.about = "IGB-full, homogeneous: papers",
		.vertices = 269346174,
		.edges = 3995777033,
		.undirected = true,
		.vertex_type = "paper",
		.relation = "cites",
		.dtype = RUNG_F32,
		.width = 1024,
		.classes = 2983,
		.labelled = 227130858.0 / 269346174,
		.train = 0.6,
		.valid = 0.2,
		.ids = GEN_IDS_RANDOM,
		.fanouts = { 15, 10, 5 },
		.hop_count = 3,
		.batch_size = 1024,
		.params = { CITATIONS },
	},
	{
		.name = "arxiv",
		.about = "ogbn-arxiv",
		.vertices = 169343,
		.edges = 1166243,
		.undirected = true,
		.vertex_type = "paper",
		.relation = "cites",
		.dtype = RUNG_F32,
		.width = 128,
		.classes = 40,
		.labelled = 1,
		.train = 90941.0 / 169343,
		.valid = 29799.0 / 169343,
		.by_time = true,
		.year = 2019,
		.ids = GEN_IDS_RANDOM,
		.fanouts = { 25, 10 },
		.hop_count = 2,
		.batch_size = 1024,
		.params = { CITATIONS },
	},
	{
		.name = "debian-docs",
		.about = "links between the pages of 16 documentation packages of Debian 12",
		.vertices = 131441,
		.edges = 3909754,
		.undirected = true,
		.stratified = true,
		.vertex_type = "page",
		.relation = "links",
		.dtype = RUNG_F32,
		.width = 128,
		.classes = 16,
		.labelled = 1,
		.train = 0.1,
		.valid = 0.1,
		.ids = GEN_IDS_COMMUNITY,
		.fanouts = { 25, 10 },
		.hop_count = 2,
		.batch_size = 1024,
		.params = { LINKS },
	},
	{
		.name = "debian",
		.about = "dependencies between the packages of Debian 12 (tools/debian_graph.py)",
		.vertices = 63666,
		.edges = 300368,
		.undirected = true,
		.cited_first = true,
		.stratified = true,
		.vertex_type = "package",
		.relation = "needs",
		.dtype = RUNG_F16,
		.width = 512,
		.classes = 58,
		.labelled = 1,
		.train = 0.6,
		.valid = 0.2,
		.ids = GEN_IDS_COMMUNITY,
		.fanouts = { 25, 10 },
		.hop_count = 2,
		.batch_size = 1024,
		.params = { DEPENDENCIES },
	},
};

#define MODEL_COUNT (sizeof(models) / sizeof(models[0]))

const struct gen_model *gen_model_find(const char *name)
{
	for (size_t i = 0; i < MODEL_COUNT; i++) {
		if (strcmp(models[i].name, name) == 0)
			return &models[i];
	}
	return NULL;
}

const struct gen_model *gen_model_typed(const char *name)
{
	return strcmp(mag240m_typed.name, name) == 0 ? &mag240m_typed : NULL;
}

const char *gen_model_name(size_t i)
{
	return i < MODEL_COUNT ? models[i].name : NULL;
}

#define PARAM(member, least, most)                                                                 \
	{                                                                                          \
		.name = #member, .offset = offsetof(struct gen_params, member), .low = (least),    \
		.high = (most)                                                                     \
	}

const struct gen_param gen_param_list[] = {
	PARAM(copy, 0, 0.99),     PARAM(run, 1, 4294967295.0),
	PARAM(home, 0, 1),        PARAM(kin, 0, 1),
	PARAM(recency, 0.1, 100), PARAM(community, 1, 1e12),
	PARAM(spread, 0, 4),      PARAM(none, 0, 0.99),
	PARAM(uneven, 0, 4),      PARAM(fame, 0, 0.99),
	PARAM(growth, 0, 4),      PARAM(mutual, 0, 1),
	PARAM(signal, 0, 100),    { 0 },
};
