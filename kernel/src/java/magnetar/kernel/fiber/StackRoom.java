package magnetar.kernel.fiber;


/**
 * Throws {@link StackOverflowError} before a kernel operation has changed anything, if the stack is too short
 * for all of it.
 *
 * <p>An overflow between the claim of a waiter and its wake-up would lose the wake-up, and one inside a lock
 * would leave it locked. No handler can repair that, because it has no stack either. So an operation first
 * touches the stack that it may need.
 *
 * <p>Invariants:
 * <ol>
 *   <li>After {@link #touch} at least {@value #BYTES} bytes are free below the frame of the caller. The code
 *       up to the wake-up, interpreted, takes less than half of them. With half of them the tests, which try
 *       all depths, found no loss either.
 *   <li>The frame of the {@value #SLOTS} locals is the reserve. The interpreter makes such a frame. Compiled
 *       code makes none, but touches as much stack on entry: it must have room for the interpreter's frame,
 *       in case execution continues there. HotSpot does so only in a method with a call, which {@code more}
 *       keeps from being folded away.
 *   <li>The method is too long to be inlined. Inlined, it would give each operation a thousand dead locals to
 *       compile.
 *   <li>Only the entry of an operation calls it, before anything is changed. Further down it would throw
 *       although the stack suffices.
 * </ol>
 *
 * <p>Source: JEP 270, which reserves stack for the JDK's own locks; its annotation is closed to other code.
 * Rejected: a recursion of small frames, which costs a call for each; handing a failed wake-up to another
 * thread, which can fail at each call on the way there.
 */
public final class StackRoom {
    private static final int SLOTS = 1024;
    private static final int BYTES = SLOTS * 8;

    private static long more; // 0; not final: a constant would let the compiler drop the call

    private StackRoom() {}

    /** Reserves the stack for an operation. */
    public static void touch() {
        touch(more);
    }

    @SuppressWarnings("unused")
    private static void touch(long n) {
        long l0 = n, l1 = n, l2 = n, l3 = n, l4 = n, l5 = n, l6 = n, l7 = n, l8 = n, l9 = n, l10 = n,
                l11 = n, l12 = n, l13 = n, l14 = n, l15 = n, l16 = n, l17 = n, l18 = n, l19 = n, l20 = n,
                l21 = n, l22 = n, l23 = n, l24 = n, l25 = n, l26 = n, l27 = n, l28 = n, l29 = n, l30 = n,
                l31 = n, l32 = n, l33 = n, l34 = n, l35 = n, l36 = n, l37 = n, l38 = n, l39 = n, l40 = n,
                l41 = n, l42 = n, l43 = n, l44 = n, l45 = n, l46 = n, l47 = n, l48 = n, l49 = n, l50 = n,
                l51 = n, l52 = n, l53 = n, l54 = n, l55 = n, l56 = n, l57 = n, l58 = n, l59 = n, l60 = n,
                l61 = n, l62 = n, l63 = n, l64 = n, l65 = n, l66 = n, l67 = n, l68 = n, l69 = n, l70 = n,
                l71 = n, l72 = n, l73 = n, l74 = n, l75 = n, l76 = n, l77 = n, l78 = n, l79 = n, l80 = n,
                l81 = n, l82 = n, l83 = n, l84 = n, l85 = n, l86 = n, l87 = n, l88 = n, l89 = n, l90 = n,
                l91 = n, l92 = n, l93 = n, l94 = n, l95 = n, l96 = n, l97 = n, l98 = n, l99 = n, l100 = n,
                l101 = n, l102 = n, l103 = n, l104 = n, l105 = n, l106 = n, l107 = n, l108 = n, l109 = n,
                l110 = n, l111 = n, l112 = n, l113 = n, l114 = n, l115 = n, l116 = n, l117 = n, l118 = n,
                l119 = n, l120 = n, l121 = n, l122 = n, l123 = n, l124 = n, l125 = n, l126 = n, l127 = n,
                l128 = n, l129 = n, l130 = n, l131 = n, l132 = n, l133 = n, l134 = n, l135 = n, l136 = n,
                l137 = n, l138 = n, l139 = n, l140 = n, l141 = n, l142 = n, l143 = n, l144 = n, l145 = n,
                l146 = n, l147 = n, l148 = n, l149 = n, l150 = n, l151 = n, l152 = n, l153 = n, l154 = n,
                l155 = n, l156 = n, l157 = n, l158 = n, l159 = n, l160 = n, l161 = n, l162 = n, l163 = n,
                l164 = n, l165 = n, l166 = n, l167 = n, l168 = n, l169 = n, l170 = n, l171 = n, l172 = n,
                l173 = n, l174 = n, l175 = n, l176 = n, l177 = n, l178 = n, l179 = n, l180 = n, l181 = n,
                l182 = n, l183 = n, l184 = n, l185 = n, l186 = n, l187 = n, l188 = n, l189 = n, l190 = n,
                l191 = n, l192 = n, l193 = n, l194 = n, l195 = n, l196 = n, l197 = n, l198 = n, l199 = n,
                l200 = n, l201 = n, l202 = n, l203 = n, l204 = n, l205 = n, l206 = n, l207 = n, l208 = n,
                l209 = n, l210 = n, l211 = n, l212 = n, l213 = n, l214 = n, l215 = n, l216 = n, l217 = n,
                l218 = n, l219 = n, l220 = n, l221 = n, l222 = n, l223 = n, l224 = n, l225 = n, l226 = n,
                l227 = n, l228 = n, l229 = n, l230 = n, l231 = n, l232 = n, l233 = n, l234 = n, l235 = n,
                l236 = n, l237 = n, l238 = n, l239 = n, l240 = n, l241 = n, l242 = n, l243 = n, l244 = n,
                l245 = n, l246 = n, l247 = n, l248 = n, l249 = n, l250 = n, l251 = n, l252 = n, l253 = n,
                l254 = n, l255 = n, l256 = n, l257 = n, l258 = n, l259 = n, l260 = n, l261 = n, l262 = n,
                l263 = n, l264 = n, l265 = n, l266 = n, l267 = n, l268 = n, l269 = n, l270 = n, l271 = n,
                l272 = n, l273 = n, l274 = n, l275 = n, l276 = n, l277 = n, l278 = n, l279 = n, l280 = n,
                l281 = n, l282 = n, l283 = n, l284 = n, l285 = n, l286 = n, l287 = n, l288 = n, l289 = n,
                l290 = n, l291 = n, l292 = n, l293 = n, l294 = n, l295 = n, l296 = n, l297 = n, l298 = n,
                l299 = n, l300 = n, l301 = n, l302 = n, l303 = n, l304 = n, l305 = n, l306 = n, l307 = n,
                l308 = n, l309 = n, l310 = n, l311 = n, l312 = n, l313 = n, l314 = n, l315 = n, l316 = n,
                l317 = n, l318 = n, l319 = n, l320 = n, l321 = n, l322 = n, l323 = n, l324 = n, l325 = n,
                l326 = n, l327 = n, l328 = n, l329 = n, l330 = n, l331 = n, l332 = n, l333 = n, l334 = n,
                l335 = n, l336 = n, l337 = n, l338 = n, l339 = n, l340 = n, l341 = n, l342 = n, l343 = n,
                l344 = n, l345 = n, l346 = n, l347 = n, l348 = n, l349 = n, l350 = n, l351 = n, l352 = n,
                l353 = n, l354 = n, l355 = n, l356 = n, l357 = n, l358 = n, l359 = n, l360 = n, l361 = n,
                l362 = n, l363 = n, l364 = n, l365 = n, l366 = n, l367 = n, l368 = n, l369 = n, l370 = n,
                l371 = n, l372 = n, l373 = n, l374 = n, l375 = n, l376 = n, l377 = n, l378 = n, l379 = n,
                l380 = n, l381 = n, l382 = n, l383 = n, l384 = n, l385 = n, l386 = n, l387 = n, l388 = n,
                l389 = n, l390 = n, l391 = n, l392 = n, l393 = n, l394 = n, l395 = n, l396 = n, l397 = n,
                l398 = n, l399 = n, l400 = n, l401 = n, l402 = n, l403 = n, l404 = n, l405 = n, l406 = n,
                l407 = n, l408 = n, l409 = n, l410 = n, l411 = n, l412 = n, l413 = n, l414 = n, l415 = n,
                l416 = n, l417 = n, l418 = n, l419 = n, l420 = n, l421 = n, l422 = n, l423 = n, l424 = n,
                l425 = n, l426 = n, l427 = n, l428 = n, l429 = n, l430 = n, l431 = n, l432 = n, l433 = n,
                l434 = n, l435 = n, l436 = n, l437 = n, l438 = n, l439 = n, l440 = n, l441 = n, l442 = n,
                l443 = n, l444 = n, l445 = n, l446 = n, l447 = n, l448 = n, l449 = n, l450 = n, l451 = n,
                l452 = n, l453 = n, l454 = n, l455 = n, l456 = n, l457 = n, l458 = n, l459 = n, l460 = n,
                l461 = n, l462 = n, l463 = n, l464 = n, l465 = n, l466 = n, l467 = n, l468 = n, l469 = n,
                l470 = n, l471 = n, l472 = n, l473 = n, l474 = n, l475 = n, l476 = n, l477 = n, l478 = n,
                l479 = n, l480 = n, l481 = n, l482 = n, l483 = n, l484 = n, l485 = n, l486 = n, l487 = n,
                l488 = n, l489 = n, l490 = n, l491 = n, l492 = n, l493 = n, l494 = n, l495 = n, l496 = n,
                l497 = n, l498 = n, l499 = n, l500 = n, l501 = n, l502 = n, l503 = n, l504 = n, l505 = n,
                l506 = n, l507 = n, l508 = n, l509 = n, l510 = n, l511 = n;
        if (n > 0) {
            touch(n - 1);
        }
    }
}
