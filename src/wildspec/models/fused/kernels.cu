// One 3 x 3 convolution of a pre-activation block with the batch norm before it and the sums of the one after it, so that a
// map is read and written once instead of five times. Maps are bf16, (n, S, S, C), C the fastest; sums are float32.
//
//   convolve          y = conv3x3(tile) of one image at a time, the image with a border of zeros in shared memory
//     forward         tile = relu(scale x + shift);  y (+ residual) is stored;  sums of y and y^2
//     data gradient   tile = gradient of the convolution's output;  dv = y where scale x + shift > 0, else 0, is stored;
//                     sums of dv and dv (x - mean)
//   weigh             gradient of the weights: sum over pixels of relu(scale x + shift)[p + tap] * gradient[p]
//
// A gradient comes as it is (g), or as what batch norm's backward makes of dv: p dv + q z + r, by channel, plus g where the
// residual joins; that sum is stored for those who need it later.
//
// A block has two groups of warps. Each works on images of its own, so that one loads while the other multiplies.
// Products are mma.sync m16n8k16 (compute capability 8.0 and newer). Rows in shared memory are padded by 16 bytes, so that
// the eight rows of an ldmatrix lie in different banks.

typedef unsigned int u32;

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define ACTIVE 0    // tile = relu(scale x + shift)
#define GIVEN 1     // tile = g
#define NORMED 2    // tile = p d + q z + r
#define JOINED 3    // tile = g + p d + q z + r, stored

DEVICE float low(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float high(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

DEVICE u32 packed(float first, float second) {  // round to nearest even
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

DEVICE float rectified(float v) {  // NaN stays NaN, so that a training that diverges is seen
    float out;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(v), "f"(0.0f));
    return out;
}

DEVICE u32 address(const void* shared) { return (u32)__cvta_generic_to_shared(shared); }

DEVICE void matrices(u32* out, u32 from) {  // four 8 x 8 blocks; a lane gives the address of one row
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(from));
}

DEVICE void matrices_turned(u32* out, u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(from));
}

DEVICE void multiply(float* c, const u32* a, const u32* b) {  // c (16 x 8) += a (16 x 16) b (16 x 8)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

DEVICE void copy_later(void* shared, const void* from) {  // 16 bytes, without a register
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(shared)), "l"(from) : "memory");
}

DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <int THREADS>
DEVICE void wait_for_group(int group) { asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(THREADS) : "memory"); }

DEVICE void split(const uint4& v, float* f) {  // eight bf16
    f[0] = low(v.x), f[1] = high(v.x), f[2] = low(v.y), f[3] = high(v.y);
    f[4] = low(v.z), f[5] = high(v.z), f[6] = low(v.w), f[7] = high(v.w);
}

DEVICE uint4 joined(const float* f) {
    return make_uint4(packed(f[0], f[1]), packed(f[2], f[3]), packed(f[4], f[5]), packed(f[6], f[7]));
}

// What a thread needs to make eight channels of a pixel as a tile has them: scale, shift, or p, q, r.
template <int C, int HOW>
struct Maker {
    float p[8], q[8], r[8];

    DEVICE_MEMBER void take(const float* by, int channel) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (HOW != GIVEN) p[i] = by[channel + i], q[i] = by[C + channel + i];
            if (HOW >= NORMED) r[i] = by[2 * C + channel + i];
        }
    }

    DEVICE_MEMBER uint4 made(uint4 first, uint4 second, uint4 third) const {
        if (HOW == GIVEN) return first;
        float a[8], b[8], c[8];
        split(first, a);
        if (HOW >= NORMED) split(second, b);
        if (HOW == JOINED) split(third, c);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (HOW == ACTIVE) a[i] = rectified(p[i] * a[i] + q[i]);
            if (HOW >= NORMED) a[i] = p[i] * a[i] + (q[i] * b[i] + r[i]);
            if (HOW == JOINED) a[i] += c[i];
        }
        return joined(a);
    }
};

// Lanes q = 0..3 of four hold words w[j], j = 0..3; afterwards lane q holds word q of lanes 0..3.
DEVICE uint4 exchanged(const u32* w, int lane) {
    const u32 everyone = 0xffffffffu;
    bool odd = lane & 1, upper = lane & 2;
    u32 first = __shfl_xor_sync(everyone, odd ? w[0] : w[1], 1);
    u32 second = __shfl_xor_sync(everyone, odd ? w[2] : w[3], 1);
    u32 t0 = odd ? first : w[0], t1 = odd ? w[1] : first, t2 = odd ? second : w[2], t3 = odd ? w[3] : second;
    u32 third = __shfl_xor_sync(everyone, upper ? t0 : t2, 2);
    u32 fourth = __shfl_xor_sync(everyone, upper ? t1 : t3, 2);
    return upper ? make_uint4(third, fourth, t2, t3) : make_uint4(t0, t1, third, fourth);
}

// Keeps KEPT of 2 KEPT values, the first where `upper` is false, and adds what the lane across `bit` has of the same.
template <int KEPT>
DEVICE void halve(float* v, int bit, bool upper) {
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        float other = __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[KEPT + i], bit);
        v[i] = (upper ? v[KEPT + i] : v[i]) + other;
    }
}

// Sixteen values of each lane, added over the lanes that differ in bits 2, 3, 4; a lane keeps the two of its own.
DEVICE void add_over_lanes(float* v, int lane) {
    halve<8>(v, 16, lane & 16);
    halve<4>(v, 8, lane & 8);
    halve<2>(v, 4, lane & 4);
}

// first: x, g or dv; second: z; third: g to join. by: 2 or 3 x C for the tile. norm (data gradient): mean, -, scale, shift of
// the batch norm before the convolution, x its input. result (n, S, S, C); sums (blocks, 2, C).
template <int C, int S, int HOW>
DEVICE void convolve(const uint4* first, const uint4* second, const uint4* third, const float* by, const float* norm,
                     const uint4* x, const uint4* residual, const float* weight, uint4* stored, uint4* result, float* sums,
                     int n) {
    const int PIXELS = S * S, WIDE = S + 2, ROW = C + 8, CHUNKS = C / 8, TILE = WIDE * WIDE * ROW, STEPS = C / 16;
    const bool FORWARD = HOW == ACTIVE;
    extern __shared__ uint4 memory[];
    uint4* fragments = memory;                                               // [9][STEPS][C / 16][32]
    unsigned short* tiles = (unsigned short*)(memory + 9 * STEPS * STEPS * 32);  // two of them
    float* coefficients = (float*)(tiles + 2 * TILE);                        // 6 x C
    int thread = threadIdx.x, group = thread >> 8, t = thread & 255, warp = t >> 5, lane = t & 31;

    if (HOW != GIVEN)
        for (int i = thread; i < (FORWARD ? 2 : 3) * C; i += 512) coefficients[i] = by[i];
    if (!FORWARD)
        for (int i = thread; i < C; i += 512) {
            coefficients[3 * C + i] = norm[i];
            coefficients[4 * C + i] = norm[2 * C + i];
            coefficients[5 * C + i] = norm[3 * C + i];
        }
    for (int i = thread; i < 2 * TILE / 8; i += 512) ((uint4*)tiles)[i] = make_uint4(0, 0, 0, 0);
    for (int i = thread; i < 9 * STEPS * STEPS * 32; i += 512) {  // weights, in the order in which a lane multiplies them
        int pair = (i >> 5) % STEPS, step = (i >> 5) / STEPS % STEPS, tap = (i >> 5) / (STEPS * STEPS), from = i & 31;
        u32 words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int k = step * 16 + (from & 3) * 2 + (j & 1) * 8, column = pair * 16 + (from >> 2) + (j >> 1) * 8;
            const float* at = FORWARD ? weight + (column * C + k) * 9 + tap : weight + (k * C + column) * 9 + 8 - tap;
            words[j] = packed(at[0], at[FORWARD ? 9 : 9 * C]);
        }
        fragments[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    __syncthreads();

    unsigned short* tile = tiles + group * TILE;
    const int part = warp % (C / 32);  // the 32 output channels of this warp
    const int chunk = t % CHUNKS;
    float total0 = 0.0f, total1 = 0.0f;
    for (int image = blockIdx.x * 2 + group; image < n; image += gridDim.x * 2) {
        const size_t start = (size_t)image * PIXELS * CHUNKS;
        const uint4* later = FORWARD ? residual : x;  // read when this image is done
        if (later)
            for (int i = t * 8; i < PIXELS * CHUNKS; i += 256 * 8)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(later + start + i));
        Maker<C, HOW> maker;
        maker.take(coefficients, chunk * 8);
        const int BATCH = HOW == JOINED ? 4 : 8;
#pragma unroll 1
        for (int i = t; i < PIXELS * CHUNKS; i += 256 * BATCH) {
            uint4 a[BATCH], b[BATCH], c[BATCH];
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                a[j] = first[start + i + 256 * j];
                if (HOW >= NORMED) b[j] = second[start + i + 256 * j];
                if (HOW == JOINED) c[j] = third[start + i + 256 * j];
            }
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                int at = i + 256 * j, pixel = at / CHUNKS, row = pixel / S, column = pixel % S;
                uint4 value = maker.made(a[j], b[j], c[j]);
                *(uint4*)(tile + ((row + 1) * WIDE + column + 1) * ROW + chunk * 8) = value;
                if (HOW == JOINED) stored[start + at] = value;
            }
        }
        wait_for_group<256>(group);

        for (int unit = warp; unit < PIXELS / 64 * (C / 32); unit += 8) {  // four rows of 16 pixels, 32 channels
            int which = unit / (C / 32), left = which % (S / 16) * 16, top = which / (S / 16) * 4;
            float sum[4][4][4];
#pragma unroll
            for (int i = 0; i < 64; i++) (&sum[0][0][0])[i] = 0.0f;
            u32 base = address(tile + (top * WIDE + left + (lane & 15)) * ROW + (lane >> 4) * 8);
#pragma unroll 1
            for (int kx = 0; kx < 3; kx++)
#pragma unroll 2
                for (int step = 0; step < STEPS; step++) {
                    u32 a[6][4];
#pragma unroll
                    for (int r = 0; r < 6; r++) matrices(a[r], base + ((r * WIDE + kx) * ROW + step * 16) * 2);
#pragma unroll
                    for (int ky = 0; ky < 3; ky++) {
                        u32 b[4][2];
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            uint4 v = fragments[(((ky * 3 + kx) * STEPS + step) * STEPS + part * 2 + j) * 32 + lane];
                            b[2 * j][0] = v.x, b[2 * j][1] = v.y, b[2 * j + 1][0] = v.z, b[2 * j + 1][1] = v.w;
                        }
#pragma unroll
                        for (int r = 0; r < 4; r++)
#pragma unroll
                            for (int j = 0; j < 4; j++) multiply(sum[r][j], a[r + ky], b[j]);
                    }
                }

            float found[16];
#pragma unroll
            for (int i = 0; i < 16; i++) found[i] = 0.0f;
            const int channel = part * 32 + (lane & 3) * 8;
            float mean[8], scale[8], shift[8];
            if (!FORWARD)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const float* by_norm = coefficients + 3 * C + channel + i;
                    mean[i] = by_norm[0], scale[i] = by_norm[C], shift[i] = by_norm[2 * C];
                }
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 w[4];
#pragma unroll
                    for (int j = 0; j < 4; j++) w[j] = packed(sum[r][j][2 * h], sum[r][j][2 * h + 1]);
                    uint4 value = exchanged(w, lane);
                    size_t at = start + ((top + r) * S + left + (lane >> 2) + 8 * h) * CHUNKS + channel / 8;
                    float v[8], other[8];
                    split(value, v);
                    if (FORWARD) {
                        if (residual) {
                            split(residual[at], other);
#pragma unroll
                            for (int i = 0; i < 8; i++) v[i] += other[i];
                            value = joined(v);
                            split(value, v);
                        }
#pragma unroll
                        for (int i = 0; i < 8; i++) found[i] += v[i], found[8 + i] += v[i] * v[i];
                    } else {
                        split(x[at], other);
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            v[i] = scale[i] * other[i] + shift[i] > 0.0f ? v[i] : 0.0f;
                            found[i] += v[i], found[8 + i] += v[i] * (other[i] - mean[i]);
                        }
                        value = joined(v);
                    }
                    result[at] = value;
                }
            add_over_lanes(found, lane);
            total0 += found[0], total1 += found[1];
        }
        wait_for_group<256>(group);
    }

    __syncthreads();
    float* totals = (float*)tiles;  // [16 warps][2][32]
    int own = (thread >> 5) * 64 + (lane >> 4) * 32 + (lane & 3) * 8 + (lane >> 3 & 1) * 4 + (lane >> 2 & 1) * 2;
    totals[own] = total0, totals[own + 1] = total1;
    __syncthreads();
    for (int i = thread; i < 2 * C; i += 512) {
        int which = i / C, channel = i % C;
        float all = 0.0f;
        for (int w = channel / 32; w < 16; w += C / 32) all += totals[w * 64 + which * 32 + channel % 32];
        sums[(size_t)blockIdx.x * 2 * C + i] = all;
    }
}

// x, by: as in the forward pass; first, second, of: the gradient. result (blocks, 9, C, C): tap, input, output channel.
// A work item is 16 rows of an image. While 16 warps multiply one item, the next is copied to shared memory as it is, and
// made into tiles afterwards. A warp has all taps of 16 input and 16 output channels; of C = 32 four warps have the same,
// each a quarter of the pixels. It goes down the rows of the input; the gradient's last three rows stay in registers.
template <int C, int S, int HOW>
DEVICE void weigh(const uint4* x, const float* by, const uint4* first, const uint4* second, const float* of, float* result,
                  int n) {
    const int THREADS = 512, WIDE = S + 2, ROW = C + 8, CHUNKS = C / 8, LINE = S * CHUNKS, PARTS = S / 16;
    const int INPUT = 18 * WIDE * ROW, OUTPUT = 16 * S * ROW, SHARES = C == 32 ? 4 : 1, HIGH = C == 32 ? 8 : 16;
    const int ABOVE = PARTS > 1 ? 1 : 0, ROWS = 16 + 2 * ABOVE;  // an image of 16 rows has none above and below
    extern __shared__ uint4 memory[];
    uint4 *raw_x = memory, *raw_first = raw_x + ROWS * LINE, *raw_second = raw_first + 16 * LINE;
    unsigned short *input = (unsigned short*)(raw_second + (HOW == NORMED ? 16 * LINE : 0)), *output = input + INPUT;
    float* coefficients = (float*)(output + OUTPUT);  // 5 x C
    int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31;

    for (int i = thread; i < 2 * C; i += THREADS) coefficients[i] = by[i];
    if (HOW != GIVEN)
        for (int i = thread; i < 3 * C; i += THREADS) coefficients[2 * C + i] = of[i];
    for (int i = thread; i < (INPUT + OUTPUT) / 8; i += THREADS) ((uint4*)input)[i] = make_uint4(0, 0, 0, 0);

    const int chunk = thread % CHUNKS;  // a thread makes into tiles what it has copied itself
    auto fetch = [&](int item) {
        const int top = item % PARTS * 16;
        const size_t start = (size_t)(item / PARTS) * S * LINE + top * LINE;
        for (int i = thread; i < ROWS * LINE; i += THREADS) {
            int row = top + i / LINE - ABOVE;
            if (row >= 0 && row < S) copy_later(raw_x + i, x + start + i - ABOVE * LINE);
        }
        for (int i = thread; i < 16 * LINE; i += THREADS) {
            copy_later(raw_first + i, first + start + i);
            if (HOW == NORMED) copy_later(raw_second + i, second + start + i);
        }
    };

    const int m = warp % (C / 16) * 16, k = warp / (C / 16) % (C / 16) * 16, share = warp / (C / 16) / (C / 16);
    const int left = share % 2 * 16, low_row = share / 2 * HIGH;  // a share is 16 columns and HIGH rows
    float sum[9][2][4];
#pragma unroll
    for (int i = 0; i < 72; i++) (&sum[0][0][0])[i] = 0.0f;
    // Blocks are turned: rows are pixels. The second block of the input is the next 8 channels, of the output the next 8 pixels.
    const u32 from_input =
        address(input + (low_row * WIDE + left + (lane >> 4) * 8 + (lane & 7)) * ROW + (lane >> 3 & 1) * 8 + m);
    const u32 from_output = address(output + (low_row * S + left + (lane & 15)) * ROW + (lane >> 4) * 8 + k);

    int item = blockIdx.x;
    if (item < n * PARTS) fetch(item);
    for (; item < n * PARTS; item += gridDim.x) {
        wait_for_copies();
        __syncthreads();  // all has arrived, and nobody multiplies any more
        const int top = item % PARTS * 16;
        {
            Maker<C, ACTIVE> maker;
            maker.take(coefficients, chunk * 8);
            for (int i = thread; i < ROWS * LINE; i += THREADS) {
                int row = i / LINE, column = i / CHUNKS % S, inside = top + row - ABOVE;
                uint4 value = make_uint4(0, 0, 0, 0);
                if (inside >= 0 && inside < S) value = maker.made(raw_x[i], value, value);
                *(uint4*)(input + ((row + 1 - ABOVE) * WIDE + column + 1) * ROW + chunk * 8) = value;
            }
        }
        {
            Maker<C, HOW> maker;
            maker.take(coefficients + 2 * C, chunk * 8);
            for (int i = thread; i < 16 * LINE; i += THREADS) {
                uint4 other = HOW == NORMED ? raw_second[i] : make_uint4(0, 0, 0, 0);
                *(uint4*)(output + i / CHUNKS * ROW + chunk * 8) = maker.made(raw_first[i], other, other);
            }
        }
        __syncthreads();
        if (item + gridDim.x < n * PARTS) fetch(item + gridDim.x);
        u32 b[3][4];  // row r of the gradient: b[r % 3]
#pragma unroll
        for (int row = 0; row < HIGH + 2; row++) {  // of the input, with a row above
            if (row < HIGH) matrices_turned(b[row % 3], from_output + row * S * ROW * 2);
#pragma unroll
            for (int kx = 0; kx < 3; kx++) {
                u32 a[4];
                matrices_turned(a, from_input + (row * WIDE + kx) * ROW * 2);
#pragma unroll
                for (int ky = 0; ky < 3; ky++)
                    if (row - ky >= 0 && row - ky < HIGH) {
                        multiply(sum[ky * 3 + kx][0], a, b[(row - ky) % 3]);
                        multiply(sum[ky * 3 + kx][1], a, b[(row - ky) % 3] + 2);
                    }
            }
        }
    }

    __syncthreads();
    float* all = (float*)memory;  // (9, C, C) of those who share them, added one after the other: the same bits every time
    for (int turn = 0; turn < SHARES; turn++) {
        if (turn == share)
#pragma unroll
            for (int tap = 0; tap < 9; tap++)
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    int in = m + (lane >> 2) + (i >> 1 & 1) * 8, out = k + (i >> 2) * 8 + (lane & 3) * 2 + (i & 1);
                    float *at = all + (tap * C + in) * C + out, own = sum[tap][i >> 2][i & 3];
                    *at = turn ? *at + own : own;
                }
        __syncthreads();
    }
    for (int i = thread; i < 9 * C * C; i += THREADS) result[(size_t)blockIdx.x * 9 * C * C + i] = all[i];
}

#define CONVOLVE(NAME, C, S, HOW)                                                                                         \
    extern "C" __global__ void __launch_bounds__(512, 1)                                                                  \
        NAME(const uint4* first, const uint4* second, const uint4* third, const float* by, const float* norm,             \
             const uint4* x, const uint4* residual, const float* weight, uint4* stored, uint4* result, float* sums, int n) { \
        convolve<C, S, HOW>(first, second, third, by, norm, x, residual, weight, stored, result, sums, n);                \
    }
#define WEIGH(NAME, C, S, HOW)                                                                                            \
    extern "C" __global__ void __launch_bounds__(512, 1)                                                                  \
        NAME(const uint4* x, const float* by, const uint4* first, const uint4* second, const float* of, float* result,    \
             int n) {                                                                                                     \
        weigh<C, S, HOW>(x, by, first, second, of, result, n);                                                            \
    }
CONVOLVE(active_32, 32, 32, ACTIVE)
CONVOLVE(given_32, 32, 32, GIVEN)
CONVOLVE(normed_32, 32, 32, NORMED)
CONVOLVE(joined_32, 32, 32, JOINED)
CONVOLVE(active_64, 64, 16, ACTIVE)
CONVOLVE(given_64, 64, 16, GIVEN)
CONVOLVE(normed_64, 64, 16, NORMED)
CONVOLVE(joined_64, 64, 16, JOINED)
WEIGH(weigh_given_32, 32, 32, GIVEN)
WEIGH(weigh_normed_32, 32, 32, NORMED)
WEIGH(weigh_given_64, 64, 16, GIVEN)
WEIGH(weigh_normed_64, 64, 16, NORMED)

// A gradient as one map; by (3, C).
template <int C, int HOW>
DEVICE void spread(const uint4* first, const uint4* second, const uint4* third, const float* by, uint4* result,
                   long long chunks) {
    Maker<C, HOW> maker;
    maker.take(by, threadIdx.x % (C / 8) * 8);
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < chunks; i += gridDim.x * 256LL)
        result[i] = maker.made(first[i], second[i], HOW == JOINED ? third[i] : first[i]);
}
#define SPREAD(NAME, C, HOW)                                                                                              \
    extern "C" __global__ void NAME(const uint4* first, const uint4* second, const uint4* third, const float* by,         \
                                    uint4* result, long long chunks) {                                                    \
        spread<C, HOW>(first, second, third, by, result, chunks);                                                         \
    }
SPREAD(spread_normed_32, 32, NORMED)
SPREAD(spread_joined_32, 32, JOINED)
SPREAD(spread_normed_64, 64, NORMED)
SPREAD(spread_joined_64, 64, JOINED)

// sums (blocks, 2, C) of x and x^2; 256 threads, C divides 2048
extern "C" __global__ void channel_sums(const uint4* x, float* sums, long long chunks, int c) {
    __shared__ float all[4096];
    float found[16];
    for (int i = 0; i < 16; i++) found[i] = 0.0f;
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < chunks; i += gridDim.x * 256) {
        float v[8];
        split(x[i], v);
#pragma unroll
        for (int j = 0; j < 8; j++) found[j] += v[j], found[8 + j] += v[j] * v[j];
    }
    for (int j = 0; j < 16; j++) all[threadIdx.x * 16 + j] = found[j];
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * c; i += 256) {
        int which = i / c, channel = i % c;
        float sum = 0.0f;
        for (int t = channel / 8; t < 256; t += c / 8) sum += all[t * 16 + which * 8 + channel % 8];
        sums[(size_t)blockIdx.x * 2 * c + i] = sum;
    }
}

// One block of 1024 threads: sums (rows, 2, c) added over the rows; the first c threads get those of their channel.
DEVICE void add_rows(const float* sums, int rows, int c, double* first, double* second) {
    __shared__ float parts[2048];
    int lanes = 1024 / c, lane = threadIdx.x / c, channel = threadIdx.x % c;
    float a = 0.0f, b = 0.0f;
#pragma unroll 4
    for (int row = lane; row < rows; row += lanes) a += sums[row * 2 * c + channel], b += sums[row * 2 * c + c + channel];
    parts[threadIdx.x] = a, parts[1024 + threadIdx.x] = b;
    __syncthreads();
    *first = *second = 0.0;
    if (lane == 0)
        for (int i = 0; i < lanes; i++) *first += parts[i * c + channel], *second += parts[1024 + i * c + channel];
}

// sums (rows, 2, c) of x and x^2 -> norm (4, c): mean, 1 / deviation, scale, shift; var (c,), biased.
extern "C" __global__ void finish_norm(const float* sums, int rows, double count, double eps, const float* gamma,
                                       const float* beta, float* norm, float* var, int c) {
    int i = threadIdx.x;
    double first, second;
    add_rows(sums, rows, c, &first, &second);
    if (i >= c) return;
    double mean = first / count, spread = second / count - mean * mean;
    spread = spread > 0.0 ? spread : 0.0;
    float inverse = (float)(1.0 / sqrt(spread + eps));
    norm[i] = (float)mean, norm[c + i] = inverse, norm[2 * c + i] = gamma[i] * inverse;
    norm[3 * c + i] = beta[i] - (float)mean * (gamma[i] * inverse);
    var[i] = (float)spread;
}

// sums (rows, 2, c) of dv and dv (x - mean) -> gradients of gamma and beta, and p, q, r (3, c) with dx = p dv + q x + r.
extern "C" __global__ void finish_gradient(const float* sums, int rows, double count, const float* norm, float* gamma,
                                           float* beta, float* coefficients, int c) {
    int i = threadIdx.x;
    double first, second;
    add_rows(sums, rows, c, &first, &second);
    if (i >= c) return;
    double inverse = norm[c + i], scale = norm[2 * c + i], by_gamma = second * inverse;
    double q = -scale * inverse * by_gamma / count;
    gamma[i] = (float)by_gamma, beta[i] = (float)first;
    coefficients[i] = (float)scale, coefficients[c + i] = (float)q;
    coefficients[2 * c + i] = (float)(-scale * first / count - q * norm[i]);
}

// parts (rows, 9, c, c): tap, input, output -> weight gradient (output, input, tap). A block has 32 elements and 8 lanes.
extern "C" __global__ void finish_weight(const float* parts, int rows, float* weight, int c) {
    __shared__ float found[256];
    int i = blockIdx.x * 32 + threadIdx.x % 32, lane = threadIdx.x / 32;
    float sum = 0.0f;
#pragma unroll 8
    for (int row = lane; row < rows; row += 8) sum += parts[(size_t)row * 9 * c * c + i];
    found[threadIdx.x] = sum;
    __syncthreads();
    if (lane) return;
    for (int j = 1; j < 8; j++) sum += found[j * 32 + threadIdx.x];
    weight[(i % c * c + i / c % c) * 9 + i / (c * c)] = sum;
}
