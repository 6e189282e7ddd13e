/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The speed of edge passes. The program reads commands on stdin and answers each with a line on
 * stdout, so that a script can alternate the variants.
 *
 *   rung_score_speed rmat|uniform SCALE EDGE_FACTOR SEED THREADS [FOLDER]
 *
 *   pull N        N iterations of PageRank like `pr` of the GAP benchmark suite (Beamer, Asanovic,
 *                 Patterson, 2015): each vertex sums, in float, the contributions of its
 *                 in-neighbours in the transposed graph -> seconds of each iteration
 *   steps N       rung_score_compute() with wrpagerank -> seconds of its first iteration, which
 *                 sorts the edges, and of each further one
 *   hops N        wrpagerank with N iterations, then expected with N hops -> seconds of both calls
 *   copy          memcpy() of an array as large as the edges -> bytes read and written per second
 *   write         writes the graph to two files in FOLDER
 *   read          reads both files once with large direct reads, three at a time -> seconds
 *   files N M     rung_score_edges() with wrpagerank, N iterations, M bytes -> seconds of the call
 *   compare N     -> largest relative difference between pull and steps after N iterations
 */
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common.h"

#define DAMPING    0.85
#define READ_BYTES (UINT64_C(8) << 20)
#define READERS    3
#define COPY_BYTES (UINT64_C(1) << 20)
#define PULL_CHUNK 16384 /* vertices, as in GAP's pr */

struct lists {
	uint64_t *indptr;
	uint32_t *indices;
};

static struct {
	uint64_t vertex_count, edge_count;
	/* in-neighbours for rung; out-neighbours for the baseline, whose graph is transposed */
	struct lists in, out;
	float *score, *passed_on;
	const char *folder;
	int threads;
} bench;

/* ---- the graph ---- */

/* Generates edge e: a Kronecker graph with a=.57, b=c=.19 and scrambled ids, as in the Graph 500
 * benchmark, or both ends uniform. */
static void make_edge(bool rmat, unsigned scale, uint64_t seed, uint64_t e, uint32_t *u,
                      uint32_t *v)
{
	const uint64_t mask = (UINT64_C(1) << scale) - 1;
	uint64_t a = 0, b = 0, bits = 0;

	if (!rmat) {
		const uint64_t draw = bench_draw(seed, e);

		*u = (uint32_t)(draw & mask);
		*v = (uint32_t)(draw >> 32 & mask);
		return;
	}
	for (unsigned s = 0; s < scale; s++, bits >>= 16) {
		uint64_t quarter;

		if (s % 4 == 0)
			bits = bench_draw(seed, 8 * e + s / 4);
		quarter = bits & 0xffff;
		/* of 65536: .57, .57 + .19, .57 + 2 * .19 */
		quarter = quarter < 37355 ? 0 : quarter < 49807 ? 1 : quarter < 62259 ? 2 : 3;
		a = a << 1 | quarter >> 1;
		b = b << 1 | (quarter & 1);
	}
	for (int round = 0; round < 2; round++) { /* odd factors and shifts permute */
		a = (a * UINT64_C(0x9e3779b1)) & mask;
		a ^= a >> (scale / 2);
		b = (b * UINT64_C(0x9e3779b1)) & mask;
		b ^= b >> (scale / 2);
	}
	*u = (uint32_t)a;
	*v = (uint32_t)b;
}

static void sum_up(uint64_t *indptr)
{
	for (uint64_t v = 0; v < bench.vertex_count; v++)
		indptr[v + 1] += indptr[v];
}

/* Transposed lists, each in ascending order. */
static struct lists turn(const struct lists *from)
{
	struct lists to = { bench_map((bench.vertex_count + 1) * 8),
		            bench_map(bench.edge_count * 4) };
	uint64_t *next = bench_map(bench.vertex_count * 8);

	for (uint64_t e = 0; e < bench.edge_count; e++)
		to.indptr[from->indices[e] + 1]++;
	sum_up(to.indptr);
	memcpy(next, to.indptr, bench.vertex_count * 8);
	for (uint64_t v = 0; v < bench.vertex_count; v++) {
		for (uint64_t e = from->indptr[v]; e < from->indptr[v + 1]; e++)
			to.indices[next[from->indices[e]]++] = (uint32_t)v;
	}
	return to;
}

static void make_graph(bool rmat, unsigned scale, uint64_t edge_factor, uint64_t seed)
{
	struct lists raw;
	uint64_t *next;

	bench.vertex_count = UINT64_C(1) << scale;
	bench.edge_count = edge_factor << scale;
	raw = (struct lists){ bench_map((bench.vertex_count + 1) * 8),
		              bench_map(bench.edge_count * 4) };
	next = bench_map(bench.vertex_count * 8);
#pragma omp parallel for num_threads(bench.threads)
	for (uint64_t e = 0; e < bench.edge_count; e++) {
		uint32_t u, v;

		make_edge(rmat, scale, seed, e, &u, &v);
		__atomic_fetch_add(&raw.indptr[v + 1], 1, __ATOMIC_RELAXED);
	}
	sum_up(raw.indptr);
	memcpy(next, raw.indptr, bench.vertex_count * 8);
#pragma omp parallel for num_threads(bench.threads)
	for (uint64_t e = 0; e < bench.edge_count; e++) {
		uint32_t u, v;

		make_edge(rmat, scale, seed, e, &u, &v);
		raw.indices[__atomic_fetch_add(&next[v], 1, __ATOMIC_RELAXED)] = u;
	}
	bench.out = turn(&raw);
	/* transposing twice sorts the lists of both, as GAP's builder does */
	bench.in = turn(&bench.out);
	bench.score = malloc(bench.vertex_count * sizeof(float));
	bench.passed_on = malloc(bench.vertex_count * sizeof(float));
	if (!bench.score || !bench.passed_on)
		bench_die("out of memory");
}

static struct rung_csc csc(void)
{
	struct rung_csc graph = {
		bench.vertex_count, bench.edge_count, bench.in.indptr, bench.in.indices, 4, 0
	};

	bench_need(rung_csc_check(&graph), "checking the graph");
	return graph;
}

/* ---- the variants ---- */

static void start(void)
{
	for (uint64_t v = 0; v < bench.vertex_count; v++)
		bench.score[v] = 1.0f / (float)bench.vertex_count;
}

/* One iteration of the baseline. @return seconds */
static double pull(void)
{
	const float base = (float)((1 - DAMPING) / (double)bench.vertex_count),
		    damping = (float)DAMPING;
	const uint64_t *in_indptr = bench.in.indptr;
	const double begin = bench_now();
	double change = 0;

#pragma omp parallel for num_threads(bench.threads)
	for (uint64_t v = 0; v < bench.vertex_count; v++)
		bench.passed_on[v] = bench.score[v] / (float)(in_indptr[v + 1] - in_indptr[v]);
#pragma omp parallel for num_threads(bench.threads) \
        reduction(+ : change) schedule(dynamic, PULL_CHUNK)
	for (uint64_t u = 0; u < bench.vertex_count; u++) {
		const float old = bench.score[u];
		float sum = 0;

		for (uint64_t e = bench.out.indptr[u]; e < bench.out.indptr[u + 1]; e++)
			sum += bench.passed_on[bench.out.indices[e]];
		bench.score[u] = base + damping * sum;
		change += fabs((double)(bench.score[u] - old));
	}
	if (!(change >= 0)) /* also keeps the compiler from dropping the sum, which GAP computes */
		bench_die("the result of the baseline is not a number");
	return bench_now() - begin;
}

static double marks[1000]; /* times at which the library reported progress */
static unsigned mark_count;

static int mark(void *ctx, const char *stage, unsigned long long done, unsigned long long total)
{
	(void)ctx;
	(void)stage;
	(void)done;
	(void)total;
	if (mark_count < sizeof(marks) / sizeof(marks[0]))
		marks[mark_count++] = bench_now();
	return 0;
}

static struct rung_score_opts wrpagerank(uint32_t iterations)
{
	return (struct rung_score_opts){
		.size = sizeof(struct rung_score_opts),
		.method = RUNG_SCORE_WRPAGERANK,
		.iterations = iterations,
		.threads = (uint32_t)bench.threads,
	};
}

static void steps(uint32_t count)
{
	const struct rung_csc graph = csc();
	struct rung_score_opts opts = wrpagerank(count);
	double before = bench_now();

	opts.progress = mark;
	mark_count = 0;
	bench_need(rung_score_compute(&graph, &opts, bench.score, NULL), "wrpagerank");
	for (unsigned i = 0; i < mark_count; i++) {
		printf("%s%.6f", i ? " " : "", marks[i] - before);
		before = marks[i];
	}
	putchar('\n');
}

static void hops(uint32_t count)
{
	static const uint32_t fanouts[] = { 12, 12, 12, 12, 12, 12, 12, 12 };
	const struct rung_csc graph = csc();
	const struct rung_score_opts pagerank = wrpagerank(count);
	const struct rung_score_opts expected = {
		.size = sizeof(expected),
		.method = RUNG_SCORE_EXPECTED,
		.fanouts = fanouts,
		.hop_count = count,
		.threads = (uint32_t)bench.threads,
	};
	struct rung_score_report first, second;

	if (count > sizeof(fanouts) / sizeof(fanouts[0]))
		bench_die("%u hops are out of range; use at most 8", count);
	bench_need(rung_score_compute(&graph, &pagerank, bench.score, &first), "wrpagerank");
	bench_need(rung_score_compute(&graph, &expected, bench.score, &second), "expected");
	printf("%.6f %.6f\n", first.seconds, second.seconds);
}

static void copy(void)
{
	const uint64_t bytes = bench.edge_count * 4;
	static char *to;
	double begin;

	if (!to)
		to = bench_map(bytes);
	begin = bench_now();
#pragma omp parallel for num_threads(bench.threads)
	for (uint64_t at = 0; at < bytes; at += COPY_BYTES)
		memcpy(to + at, (const char *)bench.in.indices + at,
		       bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES);
	printf("%.0f\n", 2 * (double)bytes / (bench_now() - begin));
}

static void compare(uint32_t count)
{
	const struct rung_csc graph = csc();
	const struct rung_score_opts opts = wrpagerank(count);
	double worst = 0;
	float *score = malloc(bench.vertex_count * sizeof(*score));

	if (!score)
		bench_die("out of memory");
	start();
	for (uint32_t i = 0; i < count; i++)
		pull();
	bench_need(rung_score_compute(&graph, &opts, score, NULL), "wrpagerank");
	for (uint64_t v = 0; v < bench.vertex_count; v++)
		worst = fmax(worst, fabs((double)(score[v] - bench.score[v])) / (double)score[v]);
	free(score);
	printf("%.3g\n", worst);
}

/* ---- files ---- */

static void path_of(char path[4096], const char *name)
{
	if (!bench.folder)
		bench_die("this command needs FOLDER");
	snprintf(path, 4096, "%s/%s", bench.folder, name);
}

static void write_file(const char *name, const void *from, uint64_t bytes)
{
	char path[4096];
	FILE *file;

	path_of(path, name);
	file = fopen(path, "wb");
	if (!file || fwrite(from, 1, bytes, file) != bytes || fflush(file) != 0 ||
	    fsync(fileno(file)) != 0 || fclose(file) != 0)
		bench_die("%s: cannot be written", path);
}

static double read_file(const char *name)
{
	char path[4096];
	const double begin = bench_now();
	struct stat st;
	bool failed = false;
	int fd;

	path_of(path, name);
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		bench_die("%s: cannot be opened with O_DIRECT", path);
#pragma omp parallel num_threads(READERS) reduction(|| : failed)
	{
		void *to = aligned_alloc(BENCH_PAGE, READ_BYTES);

#pragma omp for schedule(dynamic, 1)
		for (int64_t at = 0; at < st.st_size; at += (int64_t)READ_BYTES)
			failed = failed || !to || pread(fd, to, READ_BYTES, at) < 0;
		free(to);
	}
	close(fd);
	if (failed)
		bench_die("%s: cannot be read", path);
	return bench_now() - begin;
}

static void from_files(uint32_t count, uint64_t memory)
{
	char indptr[4096], indices[4096], spec[3 * 4096];
	const char *specs[] = { spec };
	struct rung_edges_opts edges_opts = RUNG_EDGES_OPTS_INIT;
	struct rung_edges_info info = { .size = sizeof(info) };
	struct rung_score_opts opts = wrpagerank(count);
	struct rung_edges *edges;
	double begin;

	path_of(indptr, "indptr");
	path_of(indices, "indices");
	snprintf(spec, sizeof(spec), "csc:raw:%s,u64,%llu,raw:%s,u32,%llu", indptr,
	         (unsigned long long)bench.vertex_count + 1, indices,
	         (unsigned long long)bench.edge_count);
	edges_opts.graph.specs = specs;
	edges_opts.graph.spec_count = 1;
	edges_opts.memory_bytes = memory / 4;
	begin = bench_now();
	bench_need(rung_edges_open(&edges_opts, &edges), "opening the files");
	bench_need(rung_edges_info(edges, &info), "opening the files");
	/* the edges keep their memory until they are closed */
	opts.memory_bytes = memory - info.memory_bytes;
	bench_need(rung_score_edges(edges, &opts, bench.score, NULL), "wrpagerank of files");
	rung_edges_close(edges);
	printf("%.6f\n", bench_now() - begin);
}

/* ---- commands ---- */

static void obey(const char *order, uint64_t first, uint64_t second)
{
	if (strcmp(order, "pull") == 0) {
		start();
		for (uint64_t i = 0; i < first; i++)
			printf("%s%.6f", i ? " " : "", pull());
		putchar('\n');
	} else if (strcmp(order, "steps") == 0) {
		steps((uint32_t)first);
	} else if (strcmp(order, "hops") == 0) {
		hops((uint32_t)first);
	} else if (strcmp(order, "copy") == 0) {
		copy();
	} else if (strcmp(order, "compare") == 0) {
		compare((uint32_t)first);
	} else if (strcmp(order, "write") == 0) {
		write_file("indptr", bench.in.indptr, (bench.vertex_count + 1) * 8);
		write_file("indices", bench.in.indices, bench.edge_count * 4);
		puts("done");
	} else if (strcmp(order, "read") == 0) {
		const double indptr = read_file("indptr");

		printf("%.6f\n", indptr + read_file("indices"));
	} else if (strcmp(order, "files") == 0) {
		from_files((uint32_t)first, second);
	} else {
		bench_die("unknown command: %s", order);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long long first, second;
	char line[256], order[32];

	bench_name = "rung_score_speed";
	if (argc < 6 || argc > 7 ||
	    (strcmp(argv[1], "rmat") != 0 && strcmp(argv[1], "uniform") != 0)) {
		fprintf(stderr, "usage: rung_score_speed rmat|uniform SCALE EDGE_FACTOR SEED "
		                "THREADS [FOLDER]\n");
		return BENCH_USAGE;
	}
	bench.threads = (int)bench_number(argv[5]);
	bench.folder = argc == 7 ? argv[6] : NULL;
	make_graph(strcmp(argv[1], "rmat") == 0, (unsigned)bench_number(argv[2]),
	           bench_number(argv[3]), bench_number(argv[4]));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		first = second = 0;
		if (sscanf(line, "%31s %llu %llu", order, &first, &second) >= 1)
			obey(order, first, second);
	}
	return BENCH_DONE;
}
