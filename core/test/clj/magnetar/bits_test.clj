(ns magnetar.bits-test
  "Layouts: what segments mean, sources, building, patterns, misuse."
  {:wakes false}
  (:require
   [clojure.test :refer [are deftest is testing]]
   [magnetar.bits :as bits]
   [magnetar.bits-support :refer [bits built failure hex parsed plain text]]
   [magnetar.impl.bits.pattern :as pattern])
  (:import
   (java.io ByteArrayInputStream InputStream)
   (java.nio ByteBuffer ByteOrder)))

(set! *warn-on-reflection* true)

;; ---- what segments mean

(deftest a-layout-splits-bytes-by-a-length-among-them
  (is (= {:len 3 :body [97 98 99] :rest [122]}
         (parsed [[:len 16] [:body :binary :len] [:rest :binary]] (hex "00 03 61 62 63 7a")))))

(deftest keywords-and-symbols-name-the-same-fields
  (is (= (parsed '[[len 16] [body :binary len]] (hex "00 01 61"))
         (parsed '[[:len 16] [:body :binary len]] (hex "00 01 61"))
         (parsed '[[len 16] [body :binary :len]] (hex "00 01 61"))))
  (is (= {:a/x 1} (parsed [[:a/x 8]] (hex "01")))))

(deftest a-layout-matches-the-whole-source-or-not-at-all
  (are [source] (nil? (parsed '[[len 16] [body :binary len]] (hex source)))
    "" "00" "0003" "00036162" "0003616263 64"))

(deftest an-empty-layout-matches-what-is-empty
  (is (= {} (bits/parse [] (byte-array 0))))
  (is (nil? (bits/parse [] (byte-array 1)))))

(deftest words-of-a-segment-stand-in-any-order
  (is (= {:a -2} (parsed '[[a 16 :little :signed]] (hex "fe ff")) (parsed '[[a :signed :integer 16 :little]] (hex "fe ff")))))

(deftest integers-have-signs-and-byte-orders
  (are [segment expected] (= {:a expected} (parsed [(into [:a] segment)] (hex "ff fe")))
    [16] 0xfffe
    [16 :signed] -2
    [16 :little] 0xfeff
    [16 :little :signed] -257
    [16 :native] (if (= ByteOrder/LITTLE_ENDIAN (ByteOrder/nativeOrder)) 0xfeff 0xfffe)))

(deftest integers-may-have-any-number-of-bits
  (is (= {:a 0} (parsed [[:a 0]] (byte-array 0))))
  (is (= {:a 5 :b 0xabc} (parsed [[:a 3] [:b 12 :little] [:_ 1]] (bits "101 10111100 1010 0"))))
  (is (= {:a Long/MAX_VALUE :b -1 :c 18446744073709551615N}
         (parsed [[:a 64] [:b 64 :signed] [:c 64]] (hex "7fffffffffffffff ffffffffffffffff ffffffffffffffff"))))
  (is (= {:a -1 :b 36893488147419103231N} (parsed [[:a 71 :signed] [:b 65]] (bits (apply str (repeat 136 "1"))))))
  (is (= {:a 0x0807060504030201ff} (parsed [[:a 72 :little]] (hex "ff0102030405060708")))))

(deftest an-integer-is-a-long-where-it-fits
  (is (= [Long Long Long clojure.lang.BigInt]
         (map class (vals (parsed [[:a 8] [:b 100] [:c 64] [:d 64]]
                                  (bits/build-bits [[5] [7 100] [9 64] [-1 64 :signed]] {})))))))

(deftest floats-have-three-sizes
  (are [segment source] (= {:a 1.5} (parsed [(into [:a :float] segment)] (hex source)))
    [16] "3e00"
    [32] "3fc00000"
    [] "3ff8000000000000"
    [32 :little] "0000c03f"
    [4 :unit 8] "3fc00000"))

(deftest floats-that-erlang-does-not-have-come-and-go
  (are [value source] (and (= source (built [[:a :float 32]] {:a value}))
                           (.equals (Double/valueOf (double value)) (:a (bits/parse [[:a :float 32]] (hex source)))))
    ##Inf "7f800000"
    ##-Inf "ff800000"
    -0.0 "80000000"
    ##NaN "7fc00000"))

(deftest a-unit-multiplies-the-size
  (is (= {:a 0x010203} (parsed [[:a 3 :unit 8]] (hex "010203"))))
  (is (= {:n 2 :a [1 2 3 4]} (parsed [[:n 8] [:a :binary :n :unit 16]] (hex "02 01020304"))))
  (is (nil? (parsed [[:a :binary :unit 16]] (hex "010203")))))

(deftest bits-are-a-value-of-their-own
  (let [{:keys [a b]} (bits/parse [[:a :bits 4] [:b :bits]] (hex "ab c0"))]
    (is (= (bits "1010") a))
    (is (= (bits "1011 1100 0000") b))
    (is (= 12 (count b)))
    (is (= [1 0 1 1] (mapv #(nth b %) (range 4))))
    (is (= :none (nth b 12 :none)))
    (is (= "#<4 bits 1010>" (pr-str a)))
    (is (= #{a} (conj #{a} (bits/bitstring (hex "af") 4))))
    (is (not= a (bits "10100")))
    (is (bits/bitstring? a))
    (is (not (bits/bitstring? (hex "ab"))))))

(deftest a-binary-need-not-begin-with-a-byte
  (is (= {:flag 1 :body [0x61 0x62]} (parsed [[:flag 1] [:body :binary 2] [:_ 7]] (bits "1 01100001 01100010 0000000"))))
  (is (= "b0b100" (built [[1 1] [:body :binary 2] [0 7]] {:body (hex "6162")}))))

(deftest a-binary-is-whole-bytes
  (is (= {:n 16 :a [1 2]} (parsed '[[n 8] [a :binary n :unit 1]] (hex "10 0102"))))
  (is (nil? (parsed '[[n 8] [a :binary n :unit 1] [_ :bits]] (hex "03 0102")))))

(deftest a-field-that-occurs-twice-must-be-equal
  (let [layout '[[n 8] [a :binary n] [a :binary n] [n 16]]]
    (is (= {:n 1 :a [7]} (parsed layout (hex "01 07 07 0001"))))
    (is (nil? (parsed layout (hex "01 07 08 0001"))))
    (is (nil? (parsed layout (hex "01 07 07 0002"))))
    (is (= "0107070001" (built layout {:a (hex "07")})))))

(deftest skipped-fields-are-read-over-and-built-as-zeros
  (let [layout '[[n 4] [_ 4] [_ :utf8] [_ :binary n] [_ 32 :float] [x 8] [_ :binary]]]
    (is (= {:n 2 :x 9} (parsed layout (hex "2f c3a9 ffff 3fc00000 09 010203"))))
    (is (nil? (parsed layout (hex "2f ff ffff 3fc00000 09"))))
    (is (= "200000000000000009" (built layout {:n 2 :x 9})))))

(deftest constants-must-be-there-and-are-built
  (let [layout [0x89 "PNG" \newline [-1 16 :signed] [1.5 :float 32] ["é€" :utf8] [(hex "0102") :binary] [(bits "101") :bits] [0 5] :x]]
    (is (= "89504e470affff3fc00000c3a9e282ac0102a007" (built layout {:x 7})))
    (is (= {:x 7} (parsed layout (bits/build layout {:x 7}))))
    (dotimes [i 19]
      (is (nil? (parsed layout (doto ^bytes (bits/build layout {:x 7}) (aset i (byte 0x55)))))))))

(deftest long-constants-are-compared-too
  (let [layout ["a text of more than eight bytes" :x]]
    (is (= {:x 1} (parsed layout (bits/build layout {:x 1}))))
    (is (nil? (parsed layout (byte-array 31))))
    (is (nil? (parsed layout (byte-array 3))))))

(deftest a-constant-may-have-the-size-of-a-field
  (let [layout '[[pad 8] [0 (* 8 pad)] x]]
    (is (= {:pad 3 :x 7} (parsed layout (hex "03 000000 07"))))
    (is (nil? (parsed layout (hex "03 000001 07"))))
    (is (= "0300000007" (built layout {:pad 3 :x 7})))))

;; ---- sizes

(deftest sizes-are-computed-from-earlier-fields
  (are [size length] (= length (count (:b (bits/parse [[:n 8] [:m 8] [:b :binary size] [:_ :binary]] (hex (apply str "0503" (repeat 99 "00")))))))
    7 7
    :n 5
    'n 5
    '(- n 4) 1
    '(+ n m 1) 9
    '(* (inc n) (dec m)) 12
    '(quot n m) 1
    '(rem n m) 2
    '(mod n m) 2
    '(max n m) 5
    '(min n m) 3
    '(bit-and n m) 1
    '(bit-or n m 8) 15
    '(bit-xor n m) 6
    '(bit-shift-left m 2) 12
    '(bit-shift-right n 1) 2
    '(if (> n m) 10 20) 10
    '(if (= n m) 10 20) 20
    '(if (<= n m) 1 (if (< n m) 2 (if (>= n m) 3 4))) 3
    `(- ~'n 4) 1
    (fn [{:keys [n m]}] (* n m)) 15))

(deftest a-size-that-cannot-be-is-no-match
  (are [size] (nil? (parsed [[:n 8] [:b :binary size] [:_ :binary]] (hex "00 00 00 00")))
    '(- n 1)
    '(quot 1 n)
    '(* 4611686018427387904 4)
    '(bit-shift-left 1 64)
    2147483647
    (fn [_] -1)
    (fn [_] 18446744073709551616N)))

(deftest a-field-of-more-than-63-bits-may-be-a-size
  (is (= {:n 1 :b [5]} (parsed '[[n 100] [_ 4] [b :binary n]] (bits/build [[1 100] [0 4] 5] {}))))
  (is (nil? (parsed '[[n 100 :little] [_ 4] [b :binary n]] (byte-array 14 (byte -1))))))

(deftest a-field-may-be-there-or-not
  (let [layout '[[flag 1] [extra (if (= flag 1) 15 7)]]]
    (is (= {:flag 1 :extra 3} (parsed layout (hex "8003"))))
    (is (= {:flag 0 :extra 3} (parsed layout (hex "03"))))))

;; ---- text

(deftest code-points-come-in-three-encodings
  (are [segment source] (and (= {:a 0x1f600} (parsed [(into [:a] segment)] (hex source)))
                             (= source (built [(into [:a] segment)] {:a 0x1f600})))
    [:utf8] "f09f9880"
    [:utf16] "d83dde00"
    [:utf16 :little] "3dd800de"
    [:utf32] "0001f600"
    [:utf32 :little] "00f60100"))

(deftest a-character-builds-a-code-point
  (is (= "c3a9" (built [[:a :utf8]] {:a \é}) (built [[\é :utf8]] {}))))

;; ---- sources

(defn- frozen
  "A stream of the bytes that fails where a read goes beyond them, as one would block."
  ^InputStream [^bytes bytes]
  (let [left (ByteArrayInputStream. bytes)]
    (proxy [InputStream] []
      (read
        ([] (if (pos? (.available left)) (.read left) (throw (AssertionError. "read too far"))))
        ([target from n]
         (if (<= (long n) (.available left)) (.read left target from n) (throw (AssertionError. "read too far"))))))))

(def ^:private frame '[[len 16] [body :binary len]])

(deftest a-stream-is-read-no-further-than-the-layout-goes
  (let [in (frozen (hex "0002 6162 0001 63"))]
    (is (= {:len 2 :body [97 98]} (parsed frame in)))
    (is (= {:len 1 :body [99]} (parsed frame in)))))

(deftest code-points-of-a-stream-are-read-byte-by-byte
  (is (= {:a 0x20ac :b 65} (parsed '[[a :utf8] [b :utf8]] (frozen (hex "e282ac 41"))))))

(deftest fields-within-a-byte-are-read-with-it
  (let [in (frozen (hex "ab cd"))]
    (is (= {:a 10 :b 11} (parsed [[:a 4] [:b 4]] in)))
    (is (= {:a 12 :b 13} (parsed [[:a 4] [:b 4]] in)))))

(deftest a-stream-is-read-to-its-end-for-the-rest
  (is (= {:a 1 :rest (vec (range 100))}
         (parsed [:a [:rest :binary]] (ByteArrayInputStream. (byte-array (cons 1 (range 100))))))))

(deftest the-end-of-a-stream-is-no-match
  (let [in (ByteArrayInputStream. (hex "0001 63 0005 61"))]
    (is (= {:len 1 :body [99]} (parsed frame in)))
    (is (nil? (parsed frame in)))
    (is (nil? (parsed frame in)))))

(deftest a-length-that-lies-takes-no-memory
  (is (nil? (parsed '[[len 32] [body :binary len]] (ByteArrayInputStream. (hex "7fffffff 61")))))
  (is (nil? (parsed '[[len 64] [body len]] (ByteArrayInputStream. (hex "7fffffffffffffff 61"))))))

(deftest a-stream-in-many-small-parts-is-one-source
  (let [bytes (byte-array (range 100))
        left (ByteArrayInputStream. bytes)
        in (proxy [InputStream] []
             (read
               ([] (.read left))
               ([target from n] (.read left target from (min 3 (long n))))))]
    (is (= (vec bytes) (:all (parsed [[:all :binary 100]] in))))))

(deftest a-buffer-is-read-from-its-position-which-moves-behind-the-part
  (let [buffer (doto (ByteBuffer/wrap (hex "ffff 0002 6162 0005 63")) (.position 2))]
    (is (= {:len 2 :body [97 98]} (parsed frame buffer)))
    (is (= 6 (.position buffer)))
    (testing "and stays where there is not enough"
      (is (nil? (parsed frame buffer)))
      (is (= 6 (.position buffer))))))

(deftest every-kind-of-buffer-is-read
  (doseq [^ByteBuffer buffer [(.put (ByteBuffer/allocateDirect 5) (hex "00 03 61 62 63"))
                              (.position (.asReadOnlyBuffer (ByteBuffer/wrap (hex "00 03 61 62 63"))) 5)
                              (.position (.order (.slice (ByteBuffer/wrap (hex "99 00 03 61 62 63")) 1 5) ByteOrder/LITTLE_ENDIAN) 5)]]
    (is (= {:len 3 :body [97 98 99]} (parsed frame (.flip buffer))))))

(deftest a-part-of-a-buffer-or-stream-ends-with-a-byte
  (is (nil? (parsed [[:a 4]] (ByteBuffer/wrap (hex "ab")))))
  (is (nil? (parsed [[:a 4]] (ByteArrayInputStream. (hex "ab"))))))

(deftest results-share-nothing-with-their-source
  (let [source (hex "01 02")
        {:keys [all]} (bits/parse [[:all :binary]] source)]
    (aset source 0 (byte 9))
    (is (= [1 2] (vec all)))))

;; ---- building

(deftest a-layout-builds-what-it-parses
  (is (= "0003616263" (built frame {:len 3 :body (hex "616263")})))
  (is (= "0003616263" (built (bits/compile frame) {:len 3 :body (ByteBuffer/wrap (hex "616263")) :ignored 1}))))

(deftest a-length-that-is-missing-is-counted
  (is (= "0003616263" (built frame {:body (hex "616263")})))
  (is (= "02" (subs (built '[[n 8] [a :binary n :unit 16]] {:a (hex "01020304")}) 0 2)))
  (is (= (bits "0011 101") (bits/build-bits '[[n 4] [a :bits n]] {:a (bits "101")})))
  (testing "of two that must be as long"
    (is (= "010708" (built '[[n 8] [a :binary n] [b :binary n]] {:a (hex "07") :b (hex "08")}))))
  (testing "and what is not there, or has no length, is named"
    (are [values message] (= message (ex-message (failure #(bits/build '[[n 8] [a :binary n :unit 16]] values))))
      {} "Segment 2 of the layout, `[a :binary n :unit 16]`, has no value; give it one, under :a."
      {:a "abc"} (str "Segment 2 of the layout, `[a :binary n :unit 16]`, takes a byte array, a ByteBuffer or a bitstring; this is \"abc\". "
                      "Use its (.getBytes s \"UTF-8\").")
      {:a (hex "010203")} (str "Segment 2 of the layout, `[a :binary n :unit 16]`, takes whole units of 16 bits; the value has 24. "
                               "Use :bits for what is no whole bytes.")))
  (testing "but not where it is a part of a computation"
    (is (= "Segment 1 of the layout, `[n 8]`, has no value; give it one, under :n."
           (ex-message (failure #(bits/build '[[n 8] [a :binary (- n 1)]] {:a (hex "01")})))))))

(deftest integers-of-every-class-are-built
  (is (= "0505050505" (built [:a :b :c :d :e] {:a 5 :b (int 5) :c 5N :d (biginteger 5) :e (byte 5)}))))

(deftest the-borders-of-integers-fit
  (are [segment values] (= values (mapv #(:a (bits/parse [(into [:a] segment)] (bits/build-bits [(into [:a] segment)] {:a %}))) values))
    [1] [0 1]
    [1 :signed] [-1 0]
    [8] [0 255]
    [8 :signed] [-128 127]
    [13 :little :signed] [-4096 4095]
    [63] [0 Long/MAX_VALUE]
    [64] [0 18446744073709551615N]
    [64 :signed] [Long/MIN_VALUE Long/MAX_VALUE]
    [65 :signed] [-18446744073709551616N 18446744073709551615N]
    [77 :little] [0 (dec (bigint (.shiftLeft BigInteger/ONE 77)))]))

(deftest bits-can-be-added-to-bits
  (let [add (fn [bits digit] (bits/build-bits [bits [digit 1]] {}))]
    (is (= (bits "10110") (reduce add (bits "") [1 0 1 1 0])))))

;; ---- patterns

(deftest a-matcher-gives-the-values-of-the-locals-in-order
  (let [layout '[[len 16] [body :binary len] [rest :binary]]]
    (is (= '[len body rest] (pattern/locals layout)))
    (is (= [3 [97 98 99] [122]] (plain (vec ((pattern/matcher layout) (hex "0003 616263 7a"))))))))

(deftest ^{:scenario "RCV-22"} too-short-binaries-are-no-match-and-stay
  (let [matcher (pattern/matcher '[[len 16] [body :binary len] [rest :binary]])
        queue [(hex "00 09 01") (hex "00 03 61 62 63 7a")]]
    (is (= [nil [3 [97 98 99] [122]]] (map #(some-> (matcher %) vec plain) queue)))))

(deftest what-is-no-binary-does-not-match
  (doseq [message [nil :x "abc" [1 2] {} (ByteArrayInputStream. (hex "01")) 7]]
    (is (nil? ((pattern/matcher '[[a 8]]) message)))))

(deftest a-message-is-matched-wholly-and-left-as-it-is
  (let [matcher (pattern/matcher '[[a 8]])
        buffer (ByteBuffer/wrap (hex "01"))]
    (is (= [1] (vec (matcher buffer))))
    (is (= 0 (.position buffer)))
    (is (nil? (matcher (hex "01 02"))))
    (is (nil? (matcher (ByteBuffer/wrap (hex "01 02")))))
    (is (= [1] (vec (matcher (bits "00000001")))))))

(deftest a-bound-symbol-is-matched-by-value-and-a-keyword-names-a-field
  (let [bound '#{kind n other}]
    (is (= '[len body] (pattern/locals '[[kind 8] [:len 8] [body :binary n]] bound)))
    (is (= '[kind n] (pattern/pins '[[kind 8] [:len 8] [body :binary n]] bound)))
    (is (= '[kind] (pattern/locals '[[:kind 8] [kind 8]] bound)))
    (is (= [] (pattern/pins '[[:kind 8] [kind 8]] bound)))
    (let [matcher (pattern/matcher '[[kind 8] [:len 8] [body :binary n]] bound)
          try-with (fn [& pins] (some-> (matcher (hex "07 09 01 02") (object-array pins)) vec (subvec 0 2) plain))]
      (is (= [9 [1 2]] (try-with 7 2)))
      (is (nil? (try-with 8 2)))
      (is (nil? (try-with 7 3)))
      (is (nil? (try-with 7.0 2)))
      (is (nil? (try-with 7 :two)))
      (is (nil? (try-with nil nil))))))

(deftest bound-binaries-are-compared-by-what-is-in-them
  (let [matcher (pattern/matcher '[[x :binary 2] [y :bits]] '#{x y})]
    (is (some? (matcher (hex "0102 03") (object-array [(hex "0102") (bits/bitstring (hex "03"))]))))
    (is (nil? (matcher (hex "0102 03") (object-array [(hex "0103") (bits/bitstring (hex "03"))]))))))

(deftest a-name-that-was-read-as-a-local-stays-that-local
  (is (= '[body] (pattern/locals '[[body :binary n] [:n 8]] '#{n})))
  (is (nil? ((pattern/matcher '[[body :binary n] [:n 8]] '#{n}) (hex "01 02") (object-array [1]))))
  (is (some? ((pattern/matcher '[[body :binary n] [:n 8]] '#{n}) (hex "05 01") (object-array [1])))))

(defmacro ^:private match-here [layout message]
  (let [locals (pattern/locals layout &env)
        found (gensym "found")]
    `(let [~found ~(pattern/form layout &env message)]
       (when ~found
         ~(zipmap (map keyword locals) (map-indexed (fn [i _] `(aget ~(with-meta found {:tag "objects"}) ~i)) locals))))))

(deftest a-macro-can-ask-for-the-form-of-a-match
  (let [kind 7]
    (is (= {:len 1 :body [5]} (plain (match-here [[kind 8] [len 8] [body :binary len]] (hex "07 01 05")))))
    (is (nil? (match-here [[kind 8] [len 8] [body :binary len]] (hex "08 01 05")))))
  (is (= [true false] (for [kind [7 8]] (some? (match-here [[kind 8]] (hex "07")))))))

(deftest the-deprecated-names-are-the-hooks
  (is (= [pattern/locals pattern/pins pattern/matcher pattern/form]
         [bits/pattern-locals bits/pattern-pins bits/matcher bits/match-form])))

(deftest ^{:experiment "E4"} frames-of-an-int16-and-a-float32-are-told-apart-by-the-int
  (let [frame (fn [kind value] (bits/build '[[kind 16 :signed] [value :float 32]] {:kind kind :value value}))
        temperature (pattern/matcher '[[-3 16 :signed] [celsius :float 32]])
        wanted (pattern/matcher '[[kind 16 :signed] [value :float 32]] '#{kind})
        mailbox [(frame 7 0.5) (frame -3 21.5) (hex "fffd")]]
    (is (= [nil [21.5] nil] (map #(some-> (temperature %) vec) mailbox)))
    (is (= [0.5 nil nil] (map #(first (wanted % (object-array [7]))) mailbox)))))

;; ---- misuse

(defn- said [layout]
  (when-let [e (failure #(bits/compile layout))]
    (is (= :magnetar/bad-layout (:magnetar/reason (ex-data e))))
    (ex-message e)))

(deftest a-layout-that-cannot-be-meant-is-refused-with-the-segment-and-a-remedy
  (are [layout message] (= message (said layout))
    '[[a 8] [b :binry a]]
    (str "Segment 2 of the layout, `[b :binry a]`, has two sizes; keep one.")
    '[[a 8] [b :binary :lenn]]
    (str "Segment 2 of the layout, `[b :binary :lenn]`, has `:lenn`, which is no type or modifier (:binary :bits :float :integer :utf16 :utf32 "
         ":utf8 :big :little :native :signed :unsigned :unit n) and names no earlier field; before it stand: a. "
         "Put the field before this one, or correct the name.")
    '[[body :binary len] [len 8]]
    (str "Segment 1 of the layout, `[body :binary len]`, takes its size from `len`, which names no earlier field; before it stand: none. "
         "Put the field before this one, or correct the name.")
    '[[a -8]] "Segment 1 of the layout, `[a -8]`, has the size -8; a size is 0 or more."
    '[[a 9999999999]] "Segment 1 of the layout, `[a 9999999999]`, has the size 9999999999, and no source is as long; give it less."
    '[[a :binary] b] "Segment 1 of the layout, `[a :binary]`, takes all the rest and is not the last segment; give it a size, or move it to the end."
    '[[_ :bits] b] "Segment 1 of the layout, `[_ :bits]`, takes all the rest and is not the last segment; give it a size, or move it to the end."
    '[[a :float 24]] "Segment 1 of the layout, `[a :float 24]`, is a float of 24 bits; a float has 16, 32 or 64."
    '[[a :binary 3 :unit 4]] "Segment 1 of the layout, `[a :binary 3 :unit 4]`, is a :binary of 12 bits, which are no whole bytes; use :bits."
    '[[a :float :integer]] "Segment 1 of the layout, `[a :float :integer]`, has two types; keep one."
    '[[a :big :little]] "Segment 1 of the layout, `[a :big :little]`, has two byte orders; keep one."
    '[[a :float :signed]] "Segment 1 of the layout, `[a :float :signed]`, has a sign, which :float has not; leave it out."
    '[[a :binary :little]] "Segment 1 of the layout, `[a :binary :little]`, has a byte order, which :binary has not; leave it out."
    '[[a :utf8 8]] "Segment 1 of the layout, `[a :utf8 8]`, has a size or unit; one :utf8 code point is as long as it is. Leave it out."
    '[[a 4 :unit 0]] "Segment 1 of the layout, `[a 4 :unit 0]`, has the unit 0; a unit is a number of bits from 1 to 256."
    '[[a 4 :unit]] "Segment 1 of the layout, `[a 4 :unit]`, has the unit nil; a unit is a number of bits from 1 to 256."
    '[[a :unit 8]] "Segment 1 of the layout, `[a :unit 8]`, has a unit and no size to multiply with it; give the size."
    '[[f :float] [a f]] "Segment 2 of the layout, `[a f]`, takes its size from `f`, which is a :float; name an :integer field."
    '[[a 1.5]] "Segment 1 of the layout, `[a 1.5]`, has 1.5 for a size; a size is a whole number, an earlier field, arithmetic with these, or a function of the fields."
    '[a [b (/ a 2)]]
    (str "Segment 2 of the layout, `[b (/ a 2)]`, computes its size with `/`, which is none of: * + - < <= = > >= bit-and bit-or bit-shift-left "
         "bit-shift-right bit-xor max min mod quot rem inc dec if. A layout that is not quoted may have a function of the fields there.")
    '[a [b (- a)]] "Segment 2 of the layout, `[b (- a)]`, gives `-` 1 operands; it takes 2."
    '[a [b (+ a "1")]] "Segment 2 of the layout, `[b (+ a \"1\")]`, has \"1\" in its size; a size is a whole number, an earlier field, or arithmetic with these."
    '[[300 8]] "Segment 1 of the layout, `[300 8]`, is a constant that does not fit its size and type; give it more bits, and text beyond Latin-1 :utf8."
    '["€"] "Segment 1 of the layout, `\"€\"`, is a constant that does not fit its size and type; give it more bits, and text beyond Latin-1 :utf8."
    '["abc" ["IHDR" :binary]]
    "Segment 2 of the layout, `[\"IHDR\" :binary]`, begins with \"IHDR\", which is no :binary; put there a name, _, or a byte array; text stands without :binary, as [\"PNG\"] or [\"é\" :utf8]."
    '[{a 8}] "Segment 1 of the layout, `{a 8}`, begins with {a 8}, which is no :integer; put there a name, _, or a whole number, a character or a string."
    '[[]] "Segment 1 of the layout, `[]`, has no value, or a nil in it; a segment is [name-or-constant & size-type-and-modifiers]."
    '{a 8} "A layout is a vector of segments, such as [[:len 16] [:body :binary :len]]; this is {a 8}."))

(deftest the-data-of-a-bad-layout-say-where
  (is (= '{:magnetar/reason :magnetar/bad-layout :segment [b :binary c] :index 1 :name c :fields [:a]}
         (ex-data (failure #(bits/compile '[a [b :binary c]]))))))

(defn- refused [layout values]
  (when-let [e (failure #(bits/build layout values))]
    (is (= :magnetar/bad-value (:magnetar/reason (ex-data e))))
    (ex-message e)))

(deftest a-value-that-does-not-fit-is-refused-with-its-segment-and-a-remedy
  (are [layout values message] (= message (refused layout values))
    '[[a 8] [b 8]] {:a 1 :b 256}
    "Segment 2 of the layout, `[b 8]`, cannot hold 256: unsigned, in 8 bits, it holds 0 to 255. Give it a value in this range, or more bits."
    '[[a 8 :signed]] {:a -129}
    "Segment 1 of the layout, `[a 8 :signed]`, cannot hold -129: signed, in 8 bits, it holds -128 to 127. Give it a value in this range, or more bits."
    '[[a 64]] {:a -1}
    "Segment 1 of the layout, `[a 64]`, cannot hold -1: unsigned, in 64 bits, it holds 0 to 18446744073709551615. Give it a value in this range, or more bits."
    '[[a 0]] {:a 1}
    "Segment 1 of the layout, `[a 0]`, cannot hold 1: unsigned, in 0 bits, it holds 0 to 0. Give it a value in this range, or more bits."
    '[a] {}
    "Segment 1 of the layout, `a`, has no value; give it one, under :a."
    '[a] {:a "7"}
    "Segment 1 of the layout, `a`, takes a whole number; this is \"7\"."
    '[[a :float 16]] {:a 1e9}
    "Segment 1 of the layout, `[a :float 16]`, cannot hold 1.0E9 in 16 bits; give it more bits."
    '[[a :float]] {:a "x"}
    "Segment 1 of the layout, `[a :float]`, takes a number, in 16, 32 or 64 bits; this is \"x\", in 64."
    '[[n 8] [a :float n]] {:n 24 :a 1}
    "Segment 2 of the layout, `[a :float n]`, takes a number, in 16, 32 or 64 bits; this is 1, in 24."
    '[[a :binary 3]] {:a (byte-array 2)}
    (str "Segment 1 of the layout, `[a :binary 3]`, is 24 bits long by its size; the value has 16. "
         "Make them equal: a length that is the plain name of a field may be left out, and is then counted.")
    '[[a :binary]] {:a "abc"}
    "Segment 1 of the layout, `[a :binary]`, takes a byte array, a ByteBuffer or a bitstring; this is \"abc\". Use its (.getBytes s \"UTF-8\")."
    '[[a :binary]] {:a (bits "101")}
    "Segment 1 of the layout, `[a :binary]`, takes whole units of 8 bits; the value has 3. Use :bits for what is no whole bytes."
    '[n [a :binary (- n 4)]] {:n 1 :a (byte-array 1)}
    (str "Segment 2 of the layout, `[a :binary (- n 4)]`, has no size: (- n 4) comes to less than 0, "
         "or cannot be computed from the values of the fields before it.")
    '[[a :utf8]] {:a 0xd800}
    "Segment 1 of the layout, `[a :utf8]`, takes a code point, 0 to 0x10FFFF without the surrogates, or a character; this is 55296."
    '[[a 3]] {:a 1}
    "The layout comes to 3 bits, which are no whole bytes. Fill it up with a segment such as [_ 5], or take a bitstring from `bits/build-bits`."))

(deftest a-function-that-gives-no-size-is-named
  (is (= "Segment 2 of the layout, `[:b a function]`, has a function that gave nil as its size; let it give a whole number."
         (ex-message (failure #(bits/parse [:a [:b (fn [_])]] (hex "01 02")))))))

(deftest a-source-that-has-no-bits-is-refused
  (let [e (failure #(bits/parse [:a] "abc"))]
    (is (= (str "`bits/parse` reads a byte array, a ByteBuffer, an InputStream or a bitstring; this is \"abc\". "
                "Give it bytes: of a string, (.getBytes s \"UTF-8\").")
           (ex-message e)))
    (is (= {:magnetar/reason :magnetar/bad-source :source "abc" :class String} (ex-data e)))))

(deftest a-bitstring-has-no-more-bits-than-its-bytes
  (is (= "`bits/bitstring` takes a byte array, ByteBuffer or bitstring, and a number of bits that it has; these are an array of 1 bytes, of 8 bits, and 9."
         (ex-message (failure #(bits/bitstring (hex "01") 9)))))
  (is (= :magnetar/bad-source (:magnetar/reason (ex-data (failure #(bits/bitstring "x")))))))

(deftest a-compiled-layout-is-compiled-once
  (let [layout (bits/compile frame)]
    (is (identical? layout (bits/compile layout)))
    (is (= "#<layout [[len 16] [body :binary len]]>" (pr-str layout)))
    (is (= "0161" (text (bits/build [[:n] [:b :binary :n]] {:b (hex "61")}))))))
