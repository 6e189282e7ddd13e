/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's draws: they match a loop step by step, including rejected numbers, and they are
 * uniform. The scan. */
#include <cmath>
#include <set>

#include "base/random.h"
#include "sampler_case.h"

static random_numbers rnd = { 5 };

/* ---- compared with a loop ---- */

struct list {
	uint64_t degree, draws;
};

/* Floyd's algorithm as published. */
static std::vector<uint64_t> draw_by_loop(uint64_t key, const list &l)
{
	struct rung__rng stream = { key };
	std::vector<uint64_t> positions;
	std::set<uint64_t> drawn;

	for (uint64_t last = l.degree - l.draws; last < l.degree; last++) {
		const uint64_t position = rung__rng_below(&stream, last + 1);
		positions.push_back(drawn.count(position) ? last : position);
		drawn.insert(positions.back());
	}
	return positions;
}

/* Positions only: lists begin at 0 and need not fit in memory. */
static void run_draws(const std::vector<list> &lists, uint32_t fanout, unsigned blocks)
{
	const uint64_t count = lists.size(), hop_key = rung__mix64(rnd.below(1000));
	std::vector<uint64_t> indptr = { 0 };

	lanes::lent.clear();
	for (const list &l : lists)
		indptr.push_back(indptr.back() + l.draws);
	const memory state(sizeof(struct sample_state), 0, true), vertices(count * 8, 0, false),
		begins(count * 8, 0, false);
	const memory degrees(count * 8, 0, false), offsets((count + 1) * 8, 0, false),
		where(indptr.back() * 8, 0, true);
	const memory sets(fanout > SHORT_FANOUT ? indptr.back() * 16 : 0, 0, true);
	struct sample_launch l = {};
	cudaError_t err = cudaSuccess;
	memset(state.at, 0, state.bytes);
	memset(begins.at, 0, begins.bytes);
	memcpy(offsets.at, indptr.data(), offsets.bytes);
	for (uint64_t i = 0; i < count; i++) {
		((uint64_t *)degrees.at)[i] = lists[i].degree;
		((uint64_t *)vertices.at)[i] = i * i + 7;
	}
	l.step.state = (struct sample_state *)state.at;
	l.step.state->report.vertex_counts[0] = count;
	l.step.vertices = (uint64_t *)vertices.at, l.step.begins = (uint64_t *)begins.at,
	l.step.degrees = (uint64_t *)degrees.at;
	l.step.indptr = (uint64_t *)offsets.at, l.step.where = (uint64_t *)where.at,
	l.step.sets = (unsigned long long *)sets.at;
	l.step.hop_key = hop_key;
	l.step.fanout = fanout;
	if (fanout <= SHORT_FANOUT)
		start(&err, l, blocks, draw_short, lanes_for(fanout));
	else
		start(&err, l, blocks, draw_long);
	CHECK(err == cudaSuccess);
	for (uint64_t i = 0; i < count; i++) {
		const std::vector<uint64_t> positions =
			draw_by_loop(rung__key_join(hop_key, i * i + 7), lists[i]);
		for (uint64_t k = 0; k < lists[i].draws && lists[i].draws < lists[i].degree; k++)
			CHECK(((uint64_t *)where.at)[indptr[i] + k] == positions[k],
			      "draw %u of list %u", (unsigned)k, (unsigned)i);
	}
}

/* Degrees just above the number of draws: most draws fall back, in chains. */
static void draws_match_a_loop()
{
	for (uint32_t fanout : { 1u, 2u, 3u, 5u, 8u, 13u, 31u, 32u, 33u, 64u, 65u, 96u, 200u }) {
		for (uint64_t more : { 1u, 2u, 5u, 40u, 1000u }) {
			std::vector<list> lists;
			for (unsigned i = 0; i < (fanout > 32 ? 20u : 150u); i++)
				lists.push_back({ fanout + more, fanout });
			/* lists that are taken whole, among the others */
			lists[3] = { fanout / 2, fanout / 2 };
			lists[7] = { 0, 0 };
			scenario("%u draws of %u", fanout, (unsigned)(fanout + more));
			run_draws(lists, fanout, 2);
		}
	}
}

static __global__ void falls_back_kernel(uint64_t *positions, uint32_t lanes, uint64_t draws,
                                         uint64_t fallback_first)
{
	const struct draw_group group = draw_group_of(lanes);
	const uint64_t position = __ldcg(positions + threadIdx.x);
	const bool mine = group.at < draws;

	/* position 3 was drawn before */
	if (draw_falls_back(group, position, fallback_first, mine, mine && position == 3))
		__stwb(positions + threadIdx.x, fallback_first + group.at);
}

/* Chains as long as a group, which are rare at random. */
static void chains_of_any_length_are_followed()
{
	for (uint32_t lanes = 1; lanes <= 32; lanes *= 2) {
		for (unsigned round = 0; round < 60; round++) {
			lanes::lent.clear();
			const memory positions(32 * 8, 0, true);
			uint64_t *at = (uint64_t *)positions.at, fallback_first = 4 + rnd.below(40),
				 draws = round % 4 ? lanes : 1 + rnd.below(lanes);
			std::vector<uint64_t> expected;
			void *args[] = { &at, &lanes, &draws, &fallback_first };
			for (uint64_t l = 0; l < 32; l++) {
				const uint64_t mine = l % lanes;
				/* mostly the fallback of the lane before; otherwise anything up to
				 * the lane's own fallback */
				at[l] = mine && rnd.below(40) ? fallback_first + mine - 1
				        : rnd.below(2)        ? 3
				                       : rnd.below(fallback_first + mine + 1);
			}
			for (uint64_t first = 0; first < 32; first += lanes) {
				std::set<uint64_t> drawn = { 3 };
				for (uint64_t k = 0; k < lanes; k++) {
					const uint64_t position = at[first + k];
					expected.push_back(k < draws && drawn.count(position)
					                           ? fallback_first + k
					                           : position);
					if (k < draws)
						drawn.insert(expected.back());
				}
			}
			scenario("chains in groups of %u, %u of them draw, round %u", lanes,
			         (unsigned)draws, round);
			CHECK(cudaLaunchKernel(falls_back_kernel, dim3(1), dim3(32), args, 0,
			                       nullptr) == cudaSuccess);
			for (uint64_t l = 0; l < 32; l++)
				CHECK(at[l] == expected[l], "lane %u", (unsigned)l);
		}
	}
}

/* Limits above 2^63 reject up to half of the numbers; with real degrees this happens once in 2^30
 * draws. */
static void rejected_numbers_match_a_loop()
{
	for (uint32_t fanout : { 1u, 2u, 7u, 16u, 32u, 33u, 65u, 130u }) {
		for (uint64_t degree : { (UINT64_C(1) << 63) + 500, (UINT64_C(1) << 62) * 3 - 1,
		                         UINT64_MAX - 1, (UINT64_C(1) << 63) - 1 }) {
			std::vector<list> lists(40, list{ degree, fanout });
			/* a group that rejects nothing, among groups that do */
			lists[5] = { 200, fanout };
			scenario("%u draws of %llu", fanout, (unsigned long long)degree);
			run_draws(lists, fanout, 1);
		}
	}
}

/* ---- distribution ---- */

/* Whether a chi-square value is neither too large nor too small: all but one in a million pass
 * (Wilson, Hilferty, 1931). */
static bool is_even(double chi_square, double freedom)
{
	const double spread = 2 / (9 * freedom),
		     z = (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);

	return z > -4.9 && z < 4.9;
}

static double chi_square(const std::vector<uint64_t> &counts)
{
	double expected = 0, sum = 0;

	for (uint64_t n : counts)
		expected += (double)n / (double)counts.size();
	for (uint64_t n : counts)
		sum += ((double)n - expected) * ((double)n - expected) / expected;
	return sum;
}

/* `lists` vertices of the same degree, whose neighbours' ids encode their place in the list. */
static graph equal_lists(uint64_t lists, uint64_t degree)
{
	graph g;

	for (uint64_t v = 0; v < lists; v++) {
		std::vector<uint64_t> list;
		for (uint64_t k = 0; k < degree; k++)
			list.push_back((v + 1 + k) % lists);
		g.add(list);
	}
	return g;
}

/* The places drawn from the list of vertex i at a hop. */
static std::vector<uint64_t> places(const sampled &got, const graph &g, size_t hop, uint64_t i)
{
	std::vector<uint64_t> drawn;

	for (uint64_t e = got.indptr[hop][i]; e < got.indptr[hop][i + 1]; e++)
		drawn.push_back(
			(got.vertices[got.indices[hop][e]] + g.vertices() - got.vertices[i] - 1) %
			g.vertices());
	std::sort(drawn.begin(), drawn.end());
	return drawn;
}

static sampled batch_of_all(const graph &g, std::vector<uint32_t> fanouts, uint64_t key,
                            bool compare)
{
	sample_case c;

	c.g = &g;
	c.fanouts = fanouts;
	c.seed = 2024;
	c.batch_key = key;
	for (uint64_t v = 0; v < g.vertices(); v++)
		c.seeds.push_back(v);
	return compare ? run_case(c) : run_batch(c);
}

static void all_subsets_are_as_likely()
{
	const struct {
		uint64_t degree;
		uint32_t fanout;
		size_t subsets;
	} sizes[] = { { 6, 3, 20 },   { 7, 2, 21 },   { 9, 1, 9 },  { 5, 4, 5 },
		      { 34, 33, 34 }, { 66, 65, 66 }, { 80, 1, 80 } };

	for (const auto &size : sizes) {
		const graph g = equal_lists(100, size.degree);
		std::map<std::vector<uint64_t>, uint64_t> seen;
		std::vector<uint64_t> counts;
		scenario("subsets of %u out of %u", size.fanout, (unsigned)size.degree);
		for (uint64_t key = 0; key < 50; key++) {
			const sampled got = batch_of_all(g, { size.fanout }, key, key % 10 == 0);
			for (uint64_t i = 0; i < 100; i++)
				seen[places(got, g, 0, i)]++;
		}
		CHECK(seen.size() == size.subsets, "%zu", seen.size());
		for (const auto &entry : seen)
			counts.push_back(entry.second);
		CHECK(is_even(chi_square(counts), (double)size.subsets - 1), "chi square %f",
		      chi_square(counts));
		/* the test detects a third of the subsets being drawn 1.5 times as often */
		for (size_t k = 0; k < counts.size(); k++)
			counts[k] += k % 3 == 0 ? counts[k] / 2 : 0;
		CHECK(!is_even(chi_square(counts), (double)size.subsets - 1));
	}
}

/* There are too many subsets to count them; this counts how often each place is drawn. The counts
 * of a draw depend on each other; the factor corrects for that. */
static void all_places_are_equally_likely()
{
	const struct {
		uint64_t degree;
		uint32_t fanout;
	} sizes[] = { { 90, 40 }, { 70, 64 }, { 64, 20 }, { 65, 32 }, { 99, 98 } };

	for (const auto &size : sizes) {
		const graph g = equal_lists(100, size.degree);
		const double share = (double)size.fanout / (double)size.degree, lists = 100 * 20;
		std::vector<uint64_t> counts(size.degree);
		double sum = 0;
		scenario("places of %u out of %u", size.fanout, (unsigned)size.degree);
		for (uint64_t key = 0; key < 20; key++) {
			const sampled got = batch_of_all(g, { size.fanout }, key, key == 0);
			for (uint64_t i = 0; i < 100; i++)
				for (uint64_t place : places(got, g, 0, i))
					counts[place]++;
		}
		for (uint64_t n : counts)
			sum += ((double)n - lists * share) * ((double)n - lists * share) /
			       (lists * share * (1 - share));
		sum *= (double)(size.degree - 1) / (double)size.degree;
		CHECK(is_even(sum, (double)size.degree - 1), "chi square %f", sum);
	}
}

/* A draw is independent of the draws of the same vertex at the next hop and in the next batch, and
 * of the draws of the next vertex. */
static void draws_are_independent()
{
	const graph g = equal_lists(100, 5);
	std::vector<uint64_t> hops(25), batches(25), vertices(25), before(100);

	scenario("independence");
	for (uint64_t key = 0; key < 40; key++) {
		const sampled got = batch_of_all(g, { 1, 1 }, key, key == 0);
		for (uint64_t i = 0; i < 100; i++) {
			const uint64_t now = places(got, g, 0, i)[0];
			hops[now * 5 + places(got, g, 1, i)[0]]++;
			if (key)
				batches[now * 5 + before[i]]++;
			if (i)
				vertices[now * 5 + before[i - 1]]++; /* already from this batch */
			before[i] = now;
		}
	}
	CHECK(is_even(chi_square(hops), 24), "%f", chi_square(hops));
	CHECK(is_even(chi_square(batches), 24), "%f", chi_square(batches));
	CHECK(is_even(chi_square(vertices), 24), "%f", chi_square(vertices));
}

/* ---- scan ---- */

static __global__ void scan_kernel(uint64_t *sums, uint64_t count, uint64_t *all)
{
	const uint64_t sum = block_scan(sums, count);

	__stwb(all + threadIdx.x, sum);
}

static void a_block_scans_any_number_of_sums()
{
	for (uint64_t count :
	     { 0u, 1u, 3u, 4u, 5u, 127u, 128u, 1023u, 1024u, 1025u, 2048u, 5000u }) {
		for (bool huge : { false, true }) {
			lanes::lent.clear();
			const memory sums(count * 8, 8, true), all(BLOCK_THREADS * 8, 0, true);
			uint64_t *at = (uint64_t *)sums.at, *all_at = (uint64_t *)all.at, n = count;
			unsigned __int128 sum = 0;
			std::vector<uint64_t> before;
			void *args[] = { &at, &n, &all_at };
			for (uint64_t i = 0; i < count; i++) {
				at[i] = huge && i % 100 == 0 ? UINT64_MAX / 3 : rnd.below(1000);
				before.push_back(
					(uint64_t)std::min<unsigned __int128>(sum, UINT64_MAX));
				sum += at[i];
			}
			scenario("a scan of %u sums, huge %d", (unsigned)count, huge);
			CHECK(cudaLaunchKernel(scan_kernel, dim3(1), dim3(BLOCK_THREADS), args, 0,
			                       nullptr) == cudaSuccess);
			for (uint64_t i = 0; i < count; i++)
				CHECK(at[i] == before[i], "sum %u", (unsigned)i);
			for (unsigned t = 0; t < BLOCK_THREADS; t++)
				CHECK(all_at[t] ==
				      (uint64_t)std::min<unsigned __int128>(sum, UINT64_MAX));
		}
	}
}

int main()
{
	draws_match_a_loop();
	chains_of_any_length_are_followed();
	rejected_numbers_match_a_loop();
	all_subsets_are_as_likely();
	all_places_are_equally_likely();
	draws_are_independent();
	a_block_scans_any_number_of_sums();
	printf("draws: %lu cases\n", cases);
	return 0;
}
