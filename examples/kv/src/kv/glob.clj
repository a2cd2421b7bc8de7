(ns kv.glob
  "Patterns of KEYS and PSUBSCRIBE. Neither a long pattern nor one with many stars can keep the server busy.")

(set! *warn-on-reflection* true)

;; A token is :any-text for a star, else a predicate of one character.

(defn- at ^Character [^String pattern ^long i]
  (.charAt pattern i))

(defn- escaped
  "The place of the character that is meant at i, behind a backslash if there is one."
  ^long [^String pattern ^long i]
  (if (and (= \\ (at pattern i)) (< (inc i) (.length pattern))) (inc i) i))

(defn- between [low high]
  (let [[low high] (sort [(int low) (int high)])]
    #(<= (long low) (int %) (long high))))

(defn- character-set
  "The token of the set that begins at i, and the place behind it."
  [^String pattern ^long i]
  (let [end (.length pattern)
        negated? (and (< (inc i) end) (= \^ (at pattern (inc i))))]
    (loop [i (if negated? (+ i 2) (inc i)) tests []]
      (if (or (<= end i) (= \] (at pattern i)))
        (let [member? (fn [c] (boolean (some #(% c) tests)))]
          [(if negated? (complement member?) member?) (inc i)])
        (let [low (escaped pattern i)
              high (when (and (< (+ low 2) end) (= \- (at pattern (inc low))))
                     (escaped pattern (+ low 2)))]
          (recur (inc (long (or high low)))
                 (conj tests (between (at pattern low) (at pattern (or high low))))))))))

(defn- token
  "The token at i, and the place behind it."
  [^String pattern ^long i]
  (case (at pattern i)
    \* [:any-text (inc i)]
    \? [any? (inc i)]
    \[ (character-set pattern i)
    (let [i (escaped pattern i)
          c (at pattern i)]
      [#(= c %) (inc i)])))

(defn- tokens [^String pattern]
  (loop [i 0 found []]
    (if (<= (.length pattern) i)
      found
      (let [[token next] (token pattern i)]
        (recur (long next) (conj found token))))))

(defn- fits?
  "Whether the text fits. At a difference the last star takes one more character, which is at `again`."
  [tokens ^String text]
  (loop [i 0 j 0 star nil again 0]
    (let [token (get tokens i)]
      (cond
        (= :any-text token) (recur (inc i) j i j)
        (= j (.length text)) (= i (count tokens))
        (and token (token (.charAt text j))) (recur (inc i) (inc j) star again)
        star (recur (inc (long star)) (inc again) star (inc again))
        :else false))))

(defn matcher
  "A function that tells whether the whole of a string fits the pattern."
  [pattern]
  (let [tokens (tokens pattern)]
    #(fits? tokens %)))
