/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Scale models of public graphs: their parameters, their graph, and their files.
 *
 * The graph is a function of its parameters and a seed: the number of citations of a vertex, and
 * the target of each of them, are computed from hashes (src/base/random.h), not from what was
 * generated before. Therefore the graph needs no memory, and any thread can compute any part of it.
 * graph.c describes the model, and links.c the other vertex types of a typed one.
 *
 * A vertex has a *position* in time: it cites only lower positions. Its *id* in the files is
 * another number (ids.c).
 */
#ifndef RUNG_TOOL_GENERATE_H
#define RUNG_TOOL_GENERATE_H

#include <stdbool.h>

#include "base/random.h"
#include "tool.h"

/** The split of a vertex. */
enum gen_split { GEN_TRAIN, GEN_VALID, GEN_TEST, GEN_UNLABELLED };
#define GEN_SPLITS      3
#define GEN_CLASSES_MAX 4096

/** Relation of ids to positions. */
enum gen_ids {
	GEN_IDS_RANDOM,    /**< no relation: a permutation of the positions */
	GEN_IDS_COMMUNITY, /**< the vertices of a community are adjacent, in the order of time */
};

/** Parameters of the graph, which are fitted to real graphs. models.c lists them by name. */
struct gen_params {
	double copy;    /**< share of the citations of a run that are copied, 0 to 1 */
	double run;     /**< number of citations in a run, at least 1 */
	double home;    /**< share of the picks in the vertex's own community */
	double kin;     /**< share of the picks in communities near it */
	double recency; /**< exponent of the age of picks; 1: all ages are equally likely */
	double fame;    /**< ratio of the picks of one level of fame to those of the level below */
	double community; /**< vertices per community */
	double spread;    /**< of the number of citations: sigma of its log-normal law */
	double none;      /**< share of the vertices that cite nothing */
	double uneven;    /**< sigma of the mean number of citations of communities */
	double growth;    /**< exponent of the growth of the number of citations in time */
	double mutual;    /**< share of the communities whose citations are answered */
	double signal;    /**< of the class in a row, relative to the noise: see rows.c */
};

/** A model: what is known of the original, and the fitted parameters. */
struct gen_model {
	const char *name, *about; /**< about: the original and the source of its numbers */
	uint64_t vertices, edges; /**< edges: in the file, as described by `undirected` */
	bool undirected;          /**< training uses each edge in both directions */
	bool cited_first;         /**< an edge goes from the cited vertex to the citing one */
	bool stratified;          /**< the law of the communities is met exactly, with any seed */
	const char *vertex_type, *relation;
	enum rung_dtype dtype;
	uint32_t width;      /**< values per row */
	uint32_t classes;    /**< of the labels */
	double labelled;     /**< share of the vertices that are in a split */
	double train, valid; /**< shares of these; the others are in "test" */
	bool by_time;        /**< splits are by time, oldest first; otherwise at random */
	uint32_t year;       /**< of the youngest vertices; 0: the vertices have none */
	enum gen_ids ids;
	uint32_t fanouts[RUNG_HOPS_MAX], hop_count, batch_size;
	struct gen_params params;
	const struct gen_others *others; /**< NULL: one vertex type and one relation */
};

/** The vertex types and relations of a typed model, except the model's own; counts are those of the
 * original. A paper is written by authors, who are affiliated with institutions. */
struct gen_others {
	uint64_t authors, institutions, writes, affiliations;
};

/** The model of a name; NULL: unknown. */
const struct gen_model *gen_model_find(const char *name);

/** The same in its typed form; NULL: it has none. */
const struct gen_model *gen_model_typed(const char *name);

/** Name number `i`; NULL after the last one. */
const char *gen_model_name(size_t i);

/** Names of the models, for completions. */
#define GEN_MODELS "mag240m papers100m wikikg90m igb arxiv debian-docs debian"

/** The model of an option's value; exits if it is unknown. */
const struct gen_model *gen_arg_model(const struct argp_state *state, const char *arg);

/** N of "1/N"; 1 for "1". Exits if it is neither. */
uint64_t gen_arg_scale(const struct argp_state *state, const char *arg);

/** A fitted parameter by its name. */
struct gen_param {
	const char *name;
	size_t offset; /**< in struct gen_params */
	double low, high;
};

#define GEN_PARAMS_MAX 16
extern const struct gen_param gen_param_list[]; /**< a row without a name ends it */

/** A permutation of the numbers below `count`. */
struct gen_permutation {
	uint64_t count, mask;
	uint64_t odd[3], inverse[3]; /**< multipliers of the rounds, and their inverses */
	unsigned shift;
};

void gen_permutation_init(struct gen_permutation *permutation, uint64_t count, uint64_t key);
uint64_t gen_permute(const struct gen_permutation *permutation, uint64_t number);
uint64_t gen_permute_back(const struct gen_permutation *permutation, uint64_t number);

#define GEN_LAW_BITS 12 /* of the tables that hold the inverse of a distribution */
#define GEN_LAW      (1u << GEN_LAW_BITS)
#define GEN_ONE_16   65536.0 /* of numbers in units of 2^-16 */

/** The value that a standard normal variable is below with probability `share`. */
double gen_normal_quantile(double share);

/** Fill the table of a log-normal law with the given mean, in units of 2^-16. */
void gen_fill_log_normal(uint32_t law[GEN_LAW], double mean, double sigma);

/** Fill the table of ages, as shares of the oldest in units of 2^-32. */
void gen_fill_ages(uint32_t law[GEN_LAW + 1], double recency);

/** A graph that is computed when it is needed. */
struct gen_graph {
	const struct gen_model *model;
	struct gen_params params;
	uint64_t vertices, edges, seed;
	uint32_t classes;
	uint64_t split_count[GEN_SPLITS];
	uint64_t key_degree, key_slot, key_run, key_mutual, key_uneven, key_fame;
	uint64_t communities;
	uint32_t copy, home, kin, fame, none, mutual; /* probabilities, in units of 2^-32 */
	uint32_t run;
	uint32_t degree_law[GEN_LAW]; /* citations, in units of 2^-16 */
	uint32_t *uneven;             /* [communities] factor of each, in units of 2^-16 */
	uint32_t uneven_max;
	bool *answered;                /* [communities] whether citations have one in return */
	uint32_t growth_law[GEN_LAW];  /* factor of a position, in units of 2^-16 */
	uint32_t age_law[GEN_LAW + 1]; /* age as a share of the oldest, in units of 2^-32 */
	/* citations that complete the number of edges: `extra_all` for every vertex, and one more
	 * for `extra_some` of them */
	uint64_t extra_all, extra_some;
	struct gen_permutation extra_order, id_order, split_order;
	uint64_t class_begin[GEN_CLASSES_MAX + 1]; /* first community of each class */
};

/** Prepare a graph whose model, parameters, vertices and edges are set. Its law of citations is set
 * by gen_graph_set_mean(). @return 0, or -1 without memory */
int gen_graph_init(struct gen_graph *graph, uint64_t seed);
void gen_graph_fini(struct gen_graph *graph);

/** Prepare and release the communities; parts of the two above. @return 0, or -1 without memory */
int gen_communities_init(struct gen_graph *graph);
void gen_communities_fini(struct gen_graph *graph);

/** Set the mean number of citations of a vertex. */
void gen_graph_set_mean(struct gen_graph *graph, double mean);

/** Citations of a vertex that are drawn from the law, without the extra ones. */
uint32_t gen_degree(const struct gen_graph *graph, uint64_t position);

/** The same with those that complete the number of edges. */
uint32_t gen_citations(const struct gen_graph *graph, uint64_t position);

/** Edges of a vertex: its citations, and those in return. */
uint64_t gen_edge_count(const struct gen_graph *graph, uint64_t position);

/** Target of a citation, at an attempt: targets of one vertex can be equal. */
uint64_t gen_target(const struct gen_graph *graph, uint64_t position, uint32_t slot,
                    uint32_t attempt);

/** True if the targets of the vertex's citations, without the extra ones, cite it in return. */
bool gen_is_mutual(const struct gen_graph *graph, uint64_t position);

uint32_t gen_class(const struct gen_graph *graph, uint64_t position);
uint64_t gen_id(const struct gen_graph *graph, uint64_t position);
uint64_t gen_position(const struct gen_graph *graph, uint64_t id);

enum gen_split gen_split_of(const struct gen_graph *graph, uint64_t position);

/** Year of a vertex: the splits by time begin with a year. */
uint32_t gen_year(const struct gen_graph *graph, uint64_t position);

/** Replace a member of a list by the last famous one before it. `fame` is the probability of each
 * further level, in units of 2^-32; the key is that of all lists; `bits` are random. */
uint64_t gen_famous(uint32_t fame, uint64_t key, uint64_t list, uint64_t member, uint32_t bits);

/** An age below `oldest`, from 32 random bits. */
uint64_t gen_age(const struct gen_graph *graph, uint32_t bits, uint64_t oldest);

/** Another community near `own`, from random bits. */
uint64_t gen_near_community(const struct gen_graph *graph, uint64_t own, uint64_t bits);

/** The relation of a typed model from each of `count` vertices to some of `targets`: links.c. */
struct gen_links {
	uint64_t count, targets, edges;
	uint64_t least; /* links that each vertex has at least */
	uint64_t key;
	struct gen_permutation order; /* ranks of the vertices by their number of links */
	uint64_t law[GEN_LAW + 1];    /* share of the further links that the first ranks have, in
	                               * units of 2^-32 */
};

/** The vertices and relations of a typed model other than the papers and their citations. */
struct gen_typed {
	uint64_t authors, institutions;
	struct gen_permutation author_order, institution_order; /* positions to ids */
	struct gen_links writes, affiliations;
};

/** Prepare them for a graph. Their counts are those of the original divided by the scale, or if it
 * is 0, in the ratio of the graph's vertices. */
void gen_typed_init(struct gen_typed *typed, const struct gen_graph *graph, uint64_t scale);

/** Number of links of a vertex. */
uint32_t gen_link_count(const struct gen_links *links, uint64_t position);

/** No vertex has more. */
uint32_t gen_link_most(const struct gen_links *links);

/** Author of a paper, and institution of an author, both as positions. */
uint64_t gen_author(const struct gen_typed *typed, const struct gen_graph *graph, uint64_t paper,
                    uint32_t slot, uint32_t attempt);
uint64_t gen_institution(const struct gen_typed *typed, const struct gen_graph *graph,
                         uint64_t author, uint32_t slot, uint32_t attempt);

/** Community of an institution; that of an author is its position modulo the communities. */
uint64_t gen_institution_home(const struct gen_typed *typed, const struct gen_graph *graph,
                              uint64_t position);

/** An output file without a name, or with a temporary one. */
struct gen_file {
	const char *name;
	int fd;
	uint64_t bytes; /* of the data that follow the header */
};

#define GEN_FILES       8 /* at most, of a model with one vertex type */
#define GEN_FILES_TYPED 4 /* more of a typed one */
#define GEN_FILES_MAX   (GEN_FILES + GEN_FILES_TYPED)
#define GEN_DATA        4096 /* offset of the data in a .npy file */

/** The folder of a model. Its files have no names until it is complete. */
struct gen_folder {
	const char *command, *path; /* for messages; as given */
	char *parent, *partial;
	bool named; /* files have temporary names, because the file system needs them */
	struct gen_file files[GEN_FILES_MAX];
	size_t file_count;
};

/** Check that the folder can be created and that its file system has room for `bytes`.
 * @return an exit code, the failure printed */
int gen_folder_open(struct gen_folder *folder, uint64_t bytes);

/** Create a file. @param file_out  valid until the folder is closed */
int gen_folder_create(struct gen_folder *folder, const char *name, struct gen_file **file_out);

/** Create a .npy file of the shape [rows, columns]; columns 0: [rows]. */
int gen_folder_array(struct gen_folder *folder, const char *name, enum rung_dtype dtype,
                     uint64_t rows, uint64_t columns, struct gen_file **file_out);

/** Write at an offset of the data. Callable from several threads. @return an errno value, or 0 */
int gen_file_write(const struct gen_file *file, uint64_t offset, const void *data, size_t bytes);

/** Print why a file could not be written. @return an exit code */
int gen_folder_refuse(const struct gen_folder *folder, const struct gen_file *file, int err);

/** Sync the files and give them and the folder their names. */
int gen_folder_commit(struct gen_folder *folder);

/** Release everything; without a commit nothing is left. */
void gen_folder_close(struct gen_folder *folder);

/** A model being written. */
struct gen_job {
	const char *command;
	struct gen_graph graph;
	struct gen_typed *typed; /* NULL: one vertex type and one relation */
	struct gen_folder folder;
	struct tool_progress progress;
	char name[96]; /* of the model, with its scale */
	uint64_t seed;
	uint64_t scale; /* the original's counts are divided by it; 0: other counts were given */
	uint64_t memory_bytes;
	uint32_t threads, width;
	double edges_seconds, rows_seconds, seconds;
};

/** Find the extra citations that complete the number of edges. */
int gen_complete(struct gen_job *job);

/** Write the parts of the folder. @return an exit code, the failure printed */
int gen_write_edges(struct gen_job *job);
int gen_write_labels(struct gen_job *job);
int gen_write_rows(struct gen_job *job);
int gen_write_description(struct gen_job *job);

/** Memory that a thread needs for rows, and that all threads share, in bytes. */
uint64_t gen_rows_bytes(const struct gen_job *job);
#define GEN_SHARED_BYTES (UINT64_C(2) << 20)

/** Bytes of a feature row, and of all files. */
uint64_t gen_row_bytes(const struct gen_job *job);
uint64_t gen_bytes(const struct gen_job *job);

/** The parameters of a graph as a JSON object. */
struct json_t *gen_params_json(const struct gen_graph *graph);

/** Counts of a typed model's vertices and edges by name, as JSON objects. */
struct json_t *gen_types_json(const struct gen_job *job);
struct json_t *gen_relations_json(const struct gen_job *job);

#endif
