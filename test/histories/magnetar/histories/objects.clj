(ns magnetar.histories.objects
  "A register, a counter and a set, as functions of their state and an input; and what a client does to them.")

(defn- register [value {:keys [f expected] wanted :value}]
  (case f
    "read" [value {:value value}]
    "write" [wanted {}]
    "cas" (if (= value expected) [wanted {:done true}] [value {:done false}])))

(defn- counter [sum {:keys [f value]}]
  (case f
    "read" [sum {:value sum}]
    "add" (let [sum (+ (long sum) (long value))] [sum {:value sum}])))

(defn- members [set {:keys [f value]}]
  (case f
    "read" [set {:values (vec (sort set))}]
    "add" [(conj set value) {}]
    "remove" [(disj set value) {}]))

(def objects
  "From the name of a model to [state f]: its state at first, and its function of a state and an input, which returns the next state and the output."
  {"register" [0 register]
   "counter" [0 counter]
   "set" [#{} members]})

(defn- nth-input
  "What a client does to the object as its i-th operation. Values that are written differ."
  [model client i]
  (let [value (inc (+ (* 1000 (long client)) (long i)))]
    (case [model (mod (+ (long client) (long i)) 3)]
      ["register" 0] {:f "write" :value value}
      ["register" 1] {:f "cas" :expected (dec value) :value value}
      ["counter" 0] {:f "add" :value 1}
      ["counter" 1] {:f "add" :value 10}
      ["set" 0] {:f "add" :value value}
      ["set" 1] {:f "remove" :value (- value 2)}
      {:f "read"})))

(defn inputs
  "The n inputs of a client."
  [model client n]
  (mapv #(nth-input model client %) (range n)))
